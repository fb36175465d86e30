/* The smallest minimum cut of a network, for the search of orders (schedules/peak): scipy's takes 26 MiB to import.
 *
 * Dinic's algorithm (Soviet Math. Doklady 11, 1970): shortest paths by levels, as long as there is room from node 0 to node 1.
 */
#include <string.h>

#include "csdf.h"

enum { SOURCE, SINK };

/* Level of each node from the source along arcs with room, -1 for those that none leads to. Returns that of the sink. */
static int32_t find_levels(int32_t nodes, const int32_t *rows, const int32_t *columns, const int32_t *room,
                           int32_t *level, int32_t *queue)
{
    memset(level, -1, sizeof *level * (size_t)nodes);
    level[SOURCE] = 0;
    queue[0] = SOURCE;
    for (int32_t first = 0, last = 1; first < last; first++) {
        const int32_t node = queue[first];
        for (int32_t arc = rows[node]; arc < rows[node + 1]; arc++) {
            const int32_t to = columns[arc];
            if (room[arc] > 0 && level[to] < 0) {
                level[to] = level[node] + 1;
                queue[last++] = to;
            }
        }
    }
    return level[SINK];
}

/* Send what a path of arcs has room for. Returns how many of its arcs are before the first that has none left. */
static int32_t send(const int32_t *path, int32_t length, const int32_t *partner, int32_t *room, int64_t *flow)
{
    int32_t least = room[path[0]], kept = length;
    for (int32_t k = 1; k < length; k++)
        least = room[path[k]] < least ? room[path[k]] : least;
    *flow += least;
    for (int32_t k = length - 1; k >= 0; k--) {
        room[path[k]] -= least;
        room[partner[path[k]]] += least;
        if (!room[path[k]]) kept = k;
    }
    return kept;
}

/* The units of the maximum flow from node 0 to node 1.
 *
 * rows, columns: arcs sorted by both ends, each with its reverse. room: their capacities; what is left of them behind it.
 * work: 3 numbers a node and one an arc; the first is not negative for nodes inside the smallest minimum cut.
 */
int64_t csdf_least_cut(int32_t nodes, const int32_t *rows, const int32_t *columns, int32_t *room, int32_t *work)
{
    int32_t *level = work, *next = work + nodes, *path = work + 2 * nodes, *partner = work + 3 * nodes;
    int64_t flow = 0;
    memcpy(next, rows, sizeof *next * (size_t)nodes);
    for (int32_t arc = 0; arc < rows[nodes]; arc++)  /* reverses of arcs that come sorted are sorted too */
        partner[arc] = next[columns[arc]]++;
    while (find_levels(nodes, rows, columns, room, level, path) >= 0) {
        int32_t node = SOURCE, depth = 0;
        memcpy(next, rows, sizeof *next * (size_t)nodes);
        for (;;) {
            if (node == SINK) {
                depth = send(path, depth, partner, room, &flow);
                node = columns[partner[path[depth]]];
            }
            while (next[node] < rows[node + 1]
                   && !(room[next[node]] > 0 && level[columns[next[node]]] == level[node] + 1))
                next[node]++;
            if (next[node] < rows[node + 1]) {
                path[depth++] = next[node];
                node = columns[next[node]];
            } else if (depth > 0) {
                node = columns[partner[path[--depth]]];
                next[node]++;
            } else {
                break;
            }
        }
    }
    return flow;
}
