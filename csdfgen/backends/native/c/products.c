/* Blocks of pixels by vectors of output channels, until a pass is done. */
#include "passes.h"

const float csdf_zeros[CSDF_ZEROS] = {0};

csdf_reach csdf_reach_of(const csdf_conv_step *step)
{
    csdf_reach reach = {0, step->layer->in_channels / step->layer->groups};
    for (int32_t i = 0; i < step->piece_count && !step->pieces[i].rows; i++)
        reach.low += step->pieces[i].channels;
    for (int32_t i = step->piece_count; i > 0 && !step->pieces[i - 1].rows; i--)
        reach.high -= step->pieces[i - 1].channels;
    return reach;
}

void csdf_products(const csdf_pass *pass) { csdf_all_blocks(pass); }
