/* Products of two matrices over their rows: csdf_contract_step. An item has one element. */
BODY(contract_of, csdf_contract_step)
{
    const int32_t each = step->height * step->width, item = across;
    if (item >= step->groups * each)
        return;
    const int32_t group = item / each, i = item % each / step->width, j = item % step->width;
    table_of_rows rows = IN_TABLES(place, step->a), others = IN_TABLES(place, step->b);
    float sum = 0.0f;
    for (int32_t k = 0; k < step->count; k++)
        sum = FMA(AT(const float, rows[k])[group * step->a_group + i * step->a_step],
            AT(const float, others[k])[group * step->b_group + j * step->b_step], sum);
    IN_MEMORY(float, IN_TABLES(place, step->out)[0])[item] = sum;
}
