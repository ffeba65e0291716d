package pvesim

import (
	"context"
	"errors"
	"slices"
	"strconv"
	"time"
)

// How long Proxmox waits for its locks (PVE/AbstractConfig.pm, PVE/Tools.pm,
// PVE/Storage/Plugin.pm).
const (
	configLockTimeout  = 10 * time.Second
	cloneLockTimeout   = time.Second
	createLockTimeout  = 5 * time.Second
	storageLockTimeout = 10 * time.Second
)

var errStopped = errors.New("received interrupt")

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

// worker is somebody who does work on a host: a task, or a request that is
// answered when all is done.
type worker struct {
	s    *state
	task *task // nil for a request
}

func (w worker) stop() <-chan struct{} {
	if w.task == nil {
		return nil
	}
	return w.task.stop
}

// sleep is how work takes time.
func (w worker) sleep(d time.Duration) error { return w.s.wait(d, w.stop()) }

func (w worker) log(format string, args ...any) {
	if w.task != nil {
		w.task.logf(format, args...)
	}
}

// lock takes a file lock, waiting for it at most for timeout.
func (w worker) lock(file string, shared bool, timeout time.Duration) (unlock func(), err error) {
	l := w.s.locks[file]
	if l == nil {
		l = &fileLock{}
		w.s.locks[file] = l
	}
	unlock = func() {
		l.holders--
		l.pass()
		if l.holders == 0 && len(l.waiting) == 0 && w.s.locks[file] == l {
			delete(w.s.locks, file)
		}
	}
	if len(l.waiting) == 0 && l.free(shared) {
		l.take(shared)
		return unlock, nil
	}
	w.log("trying to acquire lock...")
	me := &lockWait{shared: shared, granted: make(chan struct{})}
	l.waiting = append(l.waiting, me)
	if err = w.until(me.granted, timeout); errors.Is(err, context.DeadlineExceeded) {
		err = die("can't lock file '%s' - got timeout", file)
	}
	select {
	case <-me.granted: // even when it came in the same moment as the timeout
		w.log(" OK")
		return unlock, nil
	default:
	}
	l.waiting = slices.DeleteFunc(l.waiting, func(o *lockWait) bool { return o == me })
	l.pass()
	return nil, err
}

func configLock(vmid int) string { return "/var/lock/qemu-server/lock-" + strconv.Itoa(vmid) + ".conf" }

// lockStorage serialises allocations on a storage. A lock of a shared one is the
// cluster's, and says so when it is not had.
func (w worker) lockStorage(st *storage) (unlock func(), err error) {
	name := st.host + "/var/lock/pve-manager/pve-storage-" + st.Name
	unlock, err = w.lock(name, false, storageLockTimeout)
	var refused *apiError
	if !errors.As(err, &refused) {
		return unlock, err
	}
	if st.Shared {
		return nil, die("cfs-lock 'storage-%s' error: got lock request timeout", st.Name)
	}
	return nil, die("can't lock file '/var/lock/pve-manager/pve-storage-%s' - got timeout", st.Name)
}

// until waits for a channel to be closed.
func (w worker) until(what <-chan struct{}, timeout time.Duration) error {
	return w.s.until(what, timeout, w.stop())
}

// took is how long so much data takes.
func took(n, perSecond Size) time.Duration {
	return time.Duration(float64(n) / float64(perSecond) * float64(time.Second))
}
