package converge_test

import (
	"context"
	"fmt"
	"sync"

	"github.com/cps-gpu/homelab/converge"
)

// oneFile keeps a lease in memory. A store that runs on several machines share is one in
// the world that they change, as package proxmox has it.
type oneFile struct {
	mu   sync.Mutex
	text string
}

func (s *oneFile) String() string { return "memory" }

func (s *oneFile) Read(context.Context) (converge.LeaseRecord, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.text == "" {
		return converge.LeaseRecord{}, converge.ErrNoLease
	}
	return converge.LeaseRecord{Text: s.text, Version: s.text}, nil
}

func (s *oneFile) Create(_ context.Context, text string) error {
	return s.put("", text, converge.ErrLeaseExists)
}

func (s *oneFile) Replace(_ context.Context, over converge.LeaseRecord, text string) error {
	return s.put(over.Version, text, converge.ErrLeaseStale)
}

func (s *oneFile) Remove(_ context.Context, over converge.LeaseRecord) error {
	return s.put(over.Version, "", converge.ErrLeaseStale)
}

func (s *oneFile) put(over, text string, otherwise error) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.text != over {
		return otherwise
	}
	s.text = text
	return nil
}

// Two runs want to change the same cluster. The second is told who is at work.
func ExampleAcquireLease() {
	store := &oneFile{}
	ctx, held, err := converge.AcquireLease(context.Background(), store, converge.LeaseClaim{What: "cluster a100", Holder: "teacher@desk", Purpose: "up"}, nil)
	if err != nil {
		fmt.Println(err)
		return
	}
	_, _, err = converge.AcquireLease(context.Background(), store, converge.LeaseClaim{What: "cluster a100", Holder: "student2@lab", Purpose: "down"},
		func(other converge.LeaseHolder) error {
			return fmt.Errorf("%s is at work: %s", other.Holder, other.Purpose)
		})
	fmt.Println(err)
	fmt.Println("ours while we work:", ctx.Err() == nil) // ctx ends where the lease is lost
	fmt.Println("released:", held.Release(ctx))
	// Output:
	// the right to change cluster a100: teacher@desk is at work: up
	// ours while we work: true
	// released: <nil>
}
