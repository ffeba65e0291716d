package api

import (
	"context"
	"net/url"
	"strings"
	"sync"
	"time"
)

// sharedGetAge is how long a shared answer stays valid, unless a change of ours makes it stale.
const sharedGetAge = 3 * time.Second

// sharedGets shares GETs that many callers send at once: all VMs, the content of a storage, the
// hardware of a host. One request answers all callers that asked before it was sent, and those that
// ask shortly after, until a change of ours makes the answer stale.
type sharedGets struct {
	mu   sync.Mutex
	byID map[string]*sharedGet
}

type sharedGet struct {
	sem        chan struct{} // holds one token while a request is running
	generation int           // counts what made older answers stale
	answered   int           // generation when the request was sent
	at         time.Time
	answer     any // nil if there is none
}

// GetShared returns the answer to GET path, shared if possible. Callers must not modify the answer.
func GetShared[T any](ctx context.Context, c *Client, path string, query url.Values) (T, error) {
	return DoShared(ctx, c, path+"?"+query.Encode(), func() (out T, err error) {
		err = c.Get(ctx, path, query, &out)
		return out, err
	})
}

// DoShared is Look for results that take more than one request; id starts like the path of the first.
func DoShared[T any](ctx context.Context, c *Client, id string, ask func() (T, error)) (T, error) {
	var zero T
	if c == nil {
		return zero, ErrNotDialled
	}
	if err := ctx.Err(); err != nil { // a kept answer would hide it
		return zero, err
	}
	g := c.glances.entry(id)
	select {
	case g.sem <- struct{}{}:
		defer func() { <-g.sem }()
	case <-ctx.Done():
		return zero, ctx.Err()
	}
	if answer, ok := c.glances.fresh(g); ok {
		return answer.(T), nil
	}
	generation := c.glances.begin(g)
	out, err := ask()
	if err != nil {
		return zero, err
	}
	c.glances.end(g, generation, out)
	return out, nil
}

func (gs *sharedGets) entry(id string) *sharedGet {
	gs.mu.Lock()
	defer gs.mu.Unlock()
	if gs.byID == nil {
		gs.byID = map[string]*sharedGet{}
	}
	g := gs.byID[id]
	if g == nil {
		g = &sharedGet{sem: make(chan struct{}, 1)}
		gs.byID[id] = g
	}
	return g
}

func (gs *sharedGets) fresh(g *sharedGet) (any, bool) {
	gs.mu.Lock()
	defer gs.mu.Unlock()
	ok := g.answer != nil && g.answered == g.generation && time.Since(g.at) < sharedGetAge
	return g.answer, ok
}

func (gs *sharedGets) begin(g *sharedGet) int {
	gs.mu.Lock()
	defer gs.mu.Unlock()
	return g.generation
}

func (gs *sharedGets) end(g *sharedGet, generation int, answer any) {
	gs.mu.Lock()
	defer gs.mu.Unlock()
	g.answer, g.answered, g.at = answer, generation, time.Now()
}

// Invalidate marks answers as stale that a request to path may have changed.
func (c *Client) Invalidate(path string) { c.glances.invalidate(path) }

func (gs *sharedGets) invalidate(path string) {
	gs.mu.Lock()
	defer gs.mu.Unlock()
	vm := strings.Contains(path, "/qemu")
	for id, g := range gs.byID {
		switch {
		case (vm || path == "/pools") && strings.HasPrefix(id, "/cluster/resources"),
			vm && strings.HasSuffix(id, "/qemu?"), // the list of a host
			vm && strings.Contains(id, "/qemu/") && sameVM(path, id),
			strings.HasPrefix(path, "/cluster/mapping") && strings.HasPrefix(id, "/cluster/mapping"),
			strings.Contains(path, "/storage/") && strings.Contains(id, "/storage/"):
			g.generation++
		}
	}
}

// sameVM reports whether two paths /nodes/N/qemu/ID/… belong to the same VM.
func sameVM(a, b string) bool {
	vm := func(s string) string {
		parts := strings.SplitN(s, "/", 6)
		return strings.Join(parts[:min(5, len(parts))], "/")
	}
	return vm(a) == vm(b)
}
