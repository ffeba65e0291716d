package proxmox

import (
	"context"
	"sync"

	"golang.org/x/sync/semaphore"
)

// Limits on concurrent work, from measurements: more than six clones at once gain nothing, and
// destroys queue at the cluster's lock on user.cfg.
const (
	maxClones   = 6
	maxDestroys = 4
)

// storageLocks serializes allocations on one storage of one host. Proxmox locks the storage while
// it makes a volume, and gives up after 10 s. Linked clones hold that lock only briefly and may run
// concurrently. A full copy or an import gets the storage exclusively.
type storageLocks struct {
	mu    sync.Mutex
	locks map[string]*semaphore.Weighted
}

// allocate waits for its turn and returns the function that ends it.
func (s *storageLocks) allocate(ctx context.Context, host, storage string, whole bool) (release func(), err error) {
	s.mu.Lock()
	if s.locks == nil {
		s.locks = map[string]*semaphore.Weighted{}
	}
	key := host + "/" + storage
	lock := s.locks[key]
	if lock == nil {
		lock = semaphore.NewWeighted(maxClones)
		s.locks[key] = lock
	}
	s.mu.Unlock()
	weight := int64(1)
	if whole {
		weight = maxClones
	}
	if err := lock.Acquire(ctx, weight); err != nil {
		return nil, err
	}
	return func() { lock.Release(weight) }, nil
}
