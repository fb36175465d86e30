/* A series: stages of instructions, one after the other, by one group. Defined before: PORTS, the arguments for the windows and
 * the tables of ports; ENTER, which takes these in place of weights and tables; CALL, which calls the body of a kernel.
 *
 * In `which`, from `first` on: the number of entries, then these.
 */
typedef struct series_entry {
    int32_t body, port, record;   /* of a port's tables if it is not 0 */
    int32_t across, items, before;/* items of a line, in all, and of the stage before */
    int32_t ends;                 /* a stage */
} series_entry;

KERNEL(csdf_series)(GLOBAL char *memory_, GLOBAL const char *weights_, GLOBAL const char *tables_,
    GLOBAL const int32_t *which_, PORTS int32_t first_ GRID)
{
    const int32_t count = which_[first_];
    GLOBAL const series_entry *entry = (GLOBAL const series_entry *)(which_ + first_ + 1);
    for (int32_t n = 0; n < count;) {
        for (int32_t ends = 0; !ends; n++, entry++) {
            buffers own = {memory_, weights_, tables_};
            ENTER
            GLOBAL const char *record = own.tables + entry->record;
            ends = entry->ends;
            for (int32_t k = (LOCAL_ITEM + LOCAL_ITEMS - entry->before % LOCAL_ITEMS) % LOCAL_ITEMS; k < entry->items; k += LOCAL_ITEMS) {
                const int32_t across = k % entry->across, down = k / entry->across;
                switch (entry->body) {
                    CALL
                }
            }
        }
        BARRIER;
    }
}
