/* Products of matrices whose rows or columns are at any addresses: csdf_multiply_step. An item has one element. */
BODY(multiply_of, csdf_multiply_step)
{
    const int32_t column = across, row = down;
    if (column >= step->columns || row >= step->groups * step->count)
        return;
    const int32_t group = row / step->count;
    GLOBAL const float *row_of_a = AT(const float, IN_TABLES(place, step->a)[row]);
    table_of_rows others = IN_TABLES(place, step->b) + (int64_t)group * (step->by_columns ? step->columns : step->depth);
    float sum = 0.0f;
    for (int32_t k = 0; k < step->depth; k++) {
        GLOBAL const float *of_b = AT(const float, others[step->by_columns ? column : k]);
        sum = FMA(row_of_a[k * step->a_step], of_b[(step->by_columns ? k : column) * step->b_step], sum);
    }
    IN_MEMORY(float, IN_TABLES(place, step->out)[row])[column * step->out_step] = sum;
}
