// Index of the box with a rank.

#if SCORED
#define BOX_OF(rank) order[rank]
#else
#define BOX_OF(rank) (rank)
#endif
