package world

import (
	"context"
	"errors"
	"slices"
	"strconv"
	"time"

	"github.com/cps-gpu/homelab/sim/pvesim/internal/answer"
	"github.com/cps-gpu/homelab/sim/pvesim/model"
)

// How long Proxmox waits for its locks (PVE/AbstractConfig.pm, PVE/Tools.pm,
// PVE/Storage/Plugin.pm).
const (
	ConfigLockTimeout  = 10 * time.Second
	CloneLockTimeout   = time.Second
	CreateLockTimeout  = 5 * time.Second
	storageLockTimeout = 10 * time.Second
)

// ErrStopped is what work ends with whose task was stopped.
var ErrStopped = errors.New("received interrupt")

// fileLock is one file that is flocked.
type fileLock struct {
	holders   int
	exclusive bool
	waiting   []*lockWait
}

type lockWait struct {
	shared  bool
	granted chan struct{}
}

func (l *fileLock) free(shared bool) bool { return l.holders == 0 || shared && !l.exclusive }

func (l *fileLock) take(shared bool) { l.holders, l.exclusive = l.holders+1, !shared }

// pass hands the lock to those who wait, in the order in which they came.
func (l *fileLock) pass() {
	for len(l.waiting) > 0 && l.free(l.waiting[0].shared) {
		w := l.waiting[0]
		l.waiting = l.waiting[1:]
		l.take(w.shared)
		close(w.granted)
	}
}

// Worker is somebody who does work on a host: a task, or a request that is
// answered when all is done.
type Worker struct {
	State *State
	Task  *Task // nil for a request
}

func (w Worker) stop() <-chan struct{} {
	if w.Task == nil {
		return nil
	}
	return w.Task.Stop
}

// Sleep is how work takes time.
func (w Worker) Sleep(d time.Duration) error { return w.State.Wait(d, w.stop()) }

// Log writes into the task's log, where there is a task.
func (w Worker) Log(format string, args ...any) {
	if w.Task != nil {
		w.Task.logf(format, args...)
	}
}

// Lock takes a file lock, waiting for it at most for timeout.
func (w Worker) Lock(file string, shared bool, timeout time.Duration) (unlock func(), err error) {
	l := w.State.Locks[file]
	if l == nil {
		l = &fileLock{}
		w.State.Locks[file] = l
	}
	unlock = func() {
		l.holders--
		l.pass()
		if l.holders == 0 && len(l.waiting) == 0 && w.State.Locks[file] == l {
			delete(w.State.Locks, file)
		}
	}
	if len(l.waiting) == 0 && l.free(shared) {
		l.take(shared)
		return unlock, nil
	}
	w.Log("trying to acquire lock...")
	me := &lockWait{shared: shared, granted: make(chan struct{})}
	l.waiting = append(l.waiting, me)
	if err = w.WaitFor(me.granted, timeout); errors.Is(err, context.DeadlineExceeded) {
		err = answer.Die("can't lock file '%s' - got timeout", file)
	}
	select {
	case <-me.granted: // even when it came in the same moment as the timeout
		w.Log(" OK")
		return unlock, nil
	default:
	}
	l.waiting = slices.DeleteFunc(l.waiting, func(o *lockWait) bool { return o == me })
	l.pass()
	return nil, err
}

// ConfigLock is the lock of a machine's configuration.
func ConfigLock(vmid int) string { return "/var/lock/qemu-server/lock-" + strconv.Itoa(vmid) + ".conf" }

// LockStorage serialises allocations on a storage. A lock of a shared one is the
// cluster's, and says so when it is not had.
func (w Worker) LockStorage(st *Storage) (unlock func(), err error) {
	name := st.Host + "/var/lock/pve-manager/pve-storage-" + st.Name
	unlock, err = w.Lock(name, false, storageLockTimeout)
	var refused *answer.Error
	if !errors.As(err, &refused) {
		return unlock, err
	}
	if st.Shared {
		return nil, answer.Die("cfs-lock 'storage-%s' error: got lock request timeout", st.Name)
	}
	return nil, answer.Die("can't lock file '/var/lock/pve-manager/pve-storage-%s' - got timeout", st.Name)
}

// WaitFor waits for a channel to be closed.
func (w Worker) WaitFor(what <-chan struct{}, timeout time.Duration) error {
	return w.State.waitFor(what, timeout, w.stop())
}

// Took is how long so much data takes.
func Took(n, perSecond model.Size) time.Duration {
	return time.Duration(float64(n) / float64(perSecond) * float64(time.Second))
}
