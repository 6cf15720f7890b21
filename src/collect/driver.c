// Whole collections: the row of the crew table chooses the protocol.

#include "collect/driver.h"

#include "collect/collection.h"
#include "collect/d4rl.h"

int collection_drive(Collection *c) {
  const CrewKind *kind = c->crew.kind;
  return kind->policies && kind->levels ? d4rl_run(c) : collection_run(c);
}
