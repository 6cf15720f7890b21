// Work that a child of the process does first, since HDF5 may crash on a damaged file or go in
// circles.

#ifndef BFM_DATA_HDF5_PROBE_H
#define BFM_DATA_HDF5_PROBE_H

// do work that changes nothing outside its process, unless a child died of it: then 0. Where there
// can be no child it is done at once
int hdf5_probe(void (*work)(void *context), void *context);

// whether this is the child
int hdf5_is_probe(void);

// the child has come to its next step, of so many bytes
void hdf5_probe_step(double bytes);

// until its next step the child does what is not HDF5's, and takes the time that this takes
void hdf5_probe_pause(void);

#endif
