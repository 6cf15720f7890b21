// A robot's description as YAML lays it out: a tree of texts, lists and mappings, each with its place in
// the file.

#ifndef BFM_ENVS_ROBOT_TREE_H
#define BFM_ENVS_ROBOT_TREE_H

#include "envs/robot.h"

typedef enum { TEXT = 1, LIST = 2, MAPPING = 4 } NodeKind;

typedef struct Node Node;
struct Node {
  NodeKind kind;
  RobotText text;  // of lists and mappings only the place
  RobotText key;   // in a mapping
  Node *children, *next;
  int count;
};

// Reads the only document of a text. The nodes belong to the robot.
int robot_tree(Robot *robot, const char *yaml, size_t size, Node *root);

const char *robot_node_kind(NodeKind kind);  // "a text"

#endif
