package proxmox

import (
	"context"
	"sync"

	"golang.org/x/sync/semaphore"
)

// Limits on work at one time, from measurements: more clones than six gain
// nothing, and destroys queue at the cluster's lock on user.cfg.
const (
	maxClones   = 6
	maxDestroys = 4
)

// storageLocks keeps allocations on one storage of one host apart. Proxmox holds
// a lock per storage while it makes a volume and gives up after 10 s: linked
// clones take it for an instant and may go side by side, a full copy or an
// import has the storage for itself.
type storageLocks struct {
	mu    sync.Mutex
	locks map[string]*semaphore.Weighted
}

// allocate waits for its turn and returns what ends it.
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
