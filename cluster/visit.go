package cluster

import (
	"context"
	"sync"
	"sync/atomic"
)

// visit is what one Plan or Run has observed. The next one starts from scratch, because
// the world may have changed.
type visit struct {
	machines   map[string]*met // by name
	identities identities
	work       workSeen

	mu        sync.Mutex
	unhealthy map[string]bool // nodes that did not come back from being taken down
}

// met is what a run has observed of a machine.
type met struct {
	// absent is set once the machine was seen not to be there: what others ask of it
	// in this run, it cannot know.
	absent atomic.Bool
	// made is set once this run has made the machine, or is about to. One that is there and
	// was made by another run, while this one waited for its turn, can be asked.
	made atomic.Bool
	// started is set once this run told K3s there to start: from then on what its
	// journal says is about that start.
	started atomic.Bool
	// answered is set once its SSH server accepted a connection.
	answered atomic.Bool
	// owned is set once K3s of an external server was seen to be of this cluster.
	owned atomic.Bool
	// looked is set once this run has looked inside.
	looked atomic.Bool
	// refused is when the login was first refused, as Unix nanoseconds: cloud-init
	// makes the login after the SSH server is up.
	refused atomic.Int64
}

// visitKey is the visit that a context belongs to.
type visitKey struct{}

// begin is a context for one Plan or Run.
func (c *Cluster) begin(ctx context.Context) context.Context {
	return context.WithValue(ctx, visitKey{}, c.newVisit())
}

func (c *Cluster) newVisit() *visit {
	v := &visit{machines: map[string]*met{}, unhealthy: map[string]bool{}}
	for name := range c.guests {
		v.machines[name] = &met{}
	}
	return v
}

// visit returns the visit of ctx; without one, a new visit.
func (c *Cluster) visit(ctx context.Context) *visit {
	if v, ok := ctx.Value(visitKey{}).(*visit); ok {
		return v
	}
	return c.newVisit()
}

// met returns what this run has observed of a machine.
func (c *Cluster) met(ctx context.Context, machine string) *met {
	return c.visit(ctx).machines[machine]
}
