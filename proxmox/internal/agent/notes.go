package agent

import (
	"sync"
	"time"
)

// notes remembers facts about VMs, by VMID, for a limited time.
type notes[T any] struct {
	mu   sync.Mutex
	byID map[int]note[T]
}

type note[T any] struct {
	what T
	at   time.Time
}

func (n *notes[T]) set(vmid int, what T) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.byID == nil {
		n.byID = map[int]note[T]{}
	}
	n.byID[vmid] = note[T]{what, time.Now()}
}

// get returns the note if it is younger than age.
func (n *notes[T]) get(vmid int, age time.Duration) (what T, known bool) {
	n.mu.Lock()
	defer n.mu.Unlock()
	one, found := n.byID[vmid]
	if !found || time.Since(one.at) > age {
		return what, false
	}
	return one.what, true
}

func (n *notes[T]) forget(vmid int) {
	n.mu.Lock()
	defer n.mu.Unlock()
	delete(n.byID, vmid)
}
