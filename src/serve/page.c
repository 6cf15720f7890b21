// The files of the page. The assembler copies them into the program, so that bfm serve reads no file
// when a browser asks for one, whatever it asks for.

#include "serve/page.h"

#include <stddef.h>
#include <string.h>

#define HTML "text/html; charset=utf-8"
#define CSS "text/css; charset=utf-8"
#define JS "text/javascript; charset=utf-8"
#define SVG "image/svg+xml"

// a name for the compiler, the path that browsers ask for, the file, its type
#define PAGES(PAGE)                                     \
  PAGE(index, "/", "web/index.html", HTML)              \
  PAGE(style, "/style.css", "web/style.css", CSS)       \
  PAGE(favicon, "/favicon.svg", "web/favicon.svg", SVG) \
  PAGE(app, "/app.js", "web/app.js", JS)                \
  PAGE(camera, "/camera.js", "web/camera.js", JS)       \
  PAGE(chart, "/chart.js", "web/chart.js", JS)          \
  PAGE(code, "/code.js", "web/code.js", JS)             \
  PAGE(complete, "/complete.js", "web/complete.js", JS) \
  PAGE(controls, "/controls.js", "web/controls.js", JS) \
  PAGE(curves, "/curves.js", "web/curves.js", JS)       \
  PAGE(ground, "/ground.js", "web/ground.js", JS)       \
  PAGE(groups, "/groups.js", "web/groups.js", JS)       \
  PAGE(keys, "/keys.js", "web/keys.js", JS)             \
  PAGE(link, "/link.js", "web/link.js", JS)             \
  PAGE(notes, "/notes.js", "web/notes.js", JS)          \
  PAGE(pose, "/pose.js", "web/pose.js", JS)             \
  PAGE(record, "/record.js", "web/record.js", JS)       \
  PAGE(runs, "/runs.js", "web/runs.js", JS)             \
  PAGE(runs_style, "/runs.css", "web/runs.css", CSS)    \
  PAGE(see, "/see.js", "web/see.js", JS)                \
  PAGE(shapes, "/shapes.js", "web/shapes.js", JS)       \
  PAGE(share, "/share.js", "web/share.js", JS)          \
  PAGE(still, "/still.js", "web/still.js", JS)          \
  PAGE(take, "/take.js", "web/take.js", JS)             \
  PAGE(tell, "/tell.js", "web/tell.js", JS)             \
  PAGE(theme, "/theme.js", "web/theme.js", JS)          \
  PAGE(touch, "/touch.js", "web/touch.js", JS)          \
  PAGE(view, "/view.js", "web/view.js", JS)             \
  PAGE(wire, "/wire.js", "web/wire.js", JS)             \
  PAGE(world, "/world.js", "web/world.js", JS)          \
  PAGE(three, "/three.js", ".deps/web/three.js", JS)

// make runs the compiler in the checkout, where the files' paths begin
#define EMBED(name, path, file, type)                                             \
  __asm__(                                                                        \
      ".pushsection .rodata\n"                                                    \
      "page_" #name ": .incbin \"" file                                           \
      "\"\n"                                                                      \
      "page_" #name                                                               \
      "_end: .byte 0\n"                                                           \
      ".popsection\n");                                                           \
  extern const unsigned char page_##name[] __attribute__((visibility("hidden"))); \
  extern const unsigned char page_##name##_end[] __attribute__((visibility("hidden")));
PAGES(EMBED)

#define ROW(name, path, file, type) {path, type, page_##name, page_##name##_end},
static const Page pages[] = {PAGES(ROW)};

const Page *page_find(const char *path) {
  for (size_t i = 0; i < sizeof pages / sizeof *pages; i++) {
    if (!strcmp(pages[i].path, path)) return &pages[i];
  }
  return NULL;
}
