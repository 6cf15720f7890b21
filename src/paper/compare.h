// Comparing like with like: which run of each method a block of a table shows, and how it differs from
// the runs that it may be compared with. A block is the cells of one domain and kind of data.

#ifndef BFM_PAPER_COMPARE_H
#define BFM_PAPER_COMPARE_H

#include "paper/paper.h"

#define BLOCK_METHODS 16

typedef struct {
  int count;
  PaperCell cells[BLOCK_METHODS];
  const LedgerLine *lines[BLOCK_METHODS];  // of the run that is shown; NULL: none in the ledger
  char *bases[BLOCK_METHODS];              // its configuration apart from what the method is
  // The cell whose run the others are compared with, -1 if nothing has been run. Runs that were made
  // like it differ in nothing but the method.
  int reference;
} PaperBlock;

// Get the block that begins at cell number *at, and set *at to the first cell of the next one. Of all
// runs in the ledger, choose those on the same data, with the same steps and configuration apart from
// what the methods are: the group with the most methods, then the most steps of all seeds. Methods
// outside that group get their best other run. Returns 0 after the last block, a negative status if
// out of memory.
int paper_block(PaperBlock *block, const Ledger *ledger, const PaperTable *table, int *at);
void paper_block_free(PaperBlock *block);

// Write what makes a method's run differ from the reference, such as "40k steps, not 100k; ortho 1, not
// 100"; empty for a run of the same group. Lines of unknown data always differ.
void paper_block_difference(const PaperBlock *block, int method, char *out, size_t size);

#endif
