// Work that a child process tries first, because HDF5 may crash or hang on a damaged file.

#ifndef BFM_DATA_HDF5_PROBE_H
#define BFM_DATA_HDF5_PROBE_H

// Does work that changes nothing outside of the process, first in a child. Returns 0, without doing
// the work here, if the child died of it. If no child can be started, does the work directly.
int hdf5_probe(void (*work)(void *context), void *context);

// whether this process is the child
int hdf5_is_probe(void);

// The child begins its next step, which reads this many bytes: restarts its time limit.
void hdf5_probe_step(double bytes);

// Suspends the child's time limit until its next step, for work outside of HDF5.
void hdf5_probe_pause(void);

#endif
