// The robot of a dataset, if it is a user's own: its files as tables of bytes in the group "robot".

#ifndef BFM_DATA_ROBOT_FILES_H
#define BFM_DATA_ROBOT_FILES_H

#include "data/hdf5.h"

// writes the files of the robot of this name; nothing for a domain without files
int robot_files_write(hid_t file, const char *env);

// registers the robot that a dataset's attribute "env" names, from the files in it
int robot_files_read(hid_t file);

#endif
