// Claims: processes on any number of machines share out cells of work over one folder, which may be on
// NFS. Claim number N of a cell is the file CELL.N.claim, created by link(2); the highest number holds
// the cell. Whoever takes over a dead process's cell creates the next number, and only one process can.

#ifndef BFM_SWEEP_CLAIM_H
#define BFM_SWEEP_CLAIM_H

#include "core/status.h"

#define CLAIM_NAME 168   // of a cell: letters, digits and ._=+-
#define CLAIM_TEXT 512   // bytes of a claim's file
#define CLAIM_DEATHS 10  // so many processes may die on a cell before it counts as failed

typedef enum {
  CLAIM_FREE,  // never claimed, given back, or its process is dead
  CLAIM_HELD,
  CLAIM_DONE,
} ClaimState;

// A cell's newest claim as this process sees it. The caller sets the name and zeros the rest.
typedef struct {
  char name[CLAIM_NAME];
  ClaimState state;
  int number;             // of the newest claim; 0: there is none
  int deaths;             // processes that died on the cell
  char holder[96];        // "host a, process 12"
  char text[CLAIM_TEXT];  // the file as it was read last …
  double since;           // … and when this process saw it change, by its own clock
} CellClaim;

// the claims of one process, which holds one cell at most; a thread renews its claim
typedef struct Claims Claims;

// Creates the folder. A claim that its process has not renewed for `expire` seconds is dead.
int claims_open(Claims **claims, const char *folder, double expire);
void claims_close(Claims *claims);  // gives back what the process still holds

// Look at a cell's newest claim. A process of this machine holds its claim until it ends. That of another
// machine is dead when the content of its claim has stayed the same for the holder's `expire` seconds by
// the clock of this process, so that the clocks of machines may differ.
int claims_look(Claims *claims, CellClaim *claim);

// Take the cell if it is free, or if it is done and `again` is set. *taken is 0 if another process holds
// it or was faster.
int claims_take(Claims *claims, CellClaim *claim, int again, int *taken);

// Whether another process took over the cell that this process holds, because it had not renewed its
// claim in time: stop, and write nothing more.
int claims_lost(Claims *claims);

// The same after a renewal: call it before a result is written.
int claims_renew(Claims *claims);

// End the present claim: as done, or free for the next process.
int claims_end(Claims *claims, ClaimState state);

#endif
