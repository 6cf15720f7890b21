// The files of the page, which are part of the program.

#ifndef BFM_SERVE_PAGE_H
#define BFM_SERVE_PAGE_H

typedef struct {
  const char *path;  // as a browser asks for it: "/style.css"
  const char *type;
  const unsigned char *begin, *end;
} Page;

// NULL if there is no such page
const Page *page_find(const char *path);

#endif
