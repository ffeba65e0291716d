package cluster_test

import (
	"syscall"
	"time"
)

// timespec reads the clock of the system, which a synctest bubble does not replace.
type timespec struct{ syscall.Timeval }

func (t *timespec) now()                 { _ = syscall.Gettimeofday(&t.Timeval) }
func (t *timespec) since() time.Duration { return time.Duration(t.Nano()) }
