/* What do the steps of a program have in common? The library knows of no program: anything may occur. Emitted code has a
 * header of its own here, by which compilers leave out what no step takes.
 *
 * CSDF_MAY: whether a field has this value, from 0 to 30, in some step; of a pointer 0 is NULL and 1 any other. CSDF_MOST: its
 * largest value. CSDF_MULTIPLE: whether every value is a multiple of a number. Fields are named by the kernel and by the fields on the way to them. */
#ifndef CSDF_USED_H
#define CSDF_USED_H

#define CSDF_MAY(field, value) 1
#define CSDF_MOST(field) INT32_MAX
#define CSDF_MULTIPLE(field, number) 0

#endif
