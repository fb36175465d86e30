/* A self-test of @title@: outputs for inputs that are computed here, beside those that csdfgen computed. */
#include "@name@.h"

#include <stddef.h>

static struct {
@members@
} data;

int @name@_check(@name@_t *net)
{
    int wrong = 0;
@for inputs@
    for (size_t k = 0; k < @size@; k++)
        data.@word@[k] = @value@;
@end@
    @name@_run_in(net, @passed@);
@for expected@
    {
        static const @type@ wanted[@count@] = {
            @values@
        };
        for (size_t k = 0; k < @count@; k++) {
            const double off = (double)data.@word@[k * @step@] - (double)wanted[k];
            wrong += !(off <= @limit@ && -off <= @limit@);
        }
    }
@end@
    return wrong;
}
