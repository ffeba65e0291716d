package world

import (
	"log/slog"
	"time"

	"github.com/cps-gpu/homelab/sim/guest"
	"github.com/cps-gpu/homelab/sim/pvesim/internal/fault"
	"github.com/cps-gpu/homelab/sim/pvesim/internal/hypervisor"
	"github.com/cps-gpu/homelab/sim/pvesim/model"
)

// Options say how a Sim behaves. The zero Options are those of real life.
type Options struct {
	// Speed divides every duration of the simulated world; 0 is 1. Under
	// testing/synctest leave it alone: virtual time costs nothing.
	Speed float64
	// Timing is how long things take; zero fields have the usual value.
	Timing Timing
	// StatusLag is how long ago /cluster/resources may have seen what it describes a VM:
	// its name, status and figures and whether it is a template, but not its tags, lock
	// and pool. 0 is ten seconds, the round of pvestatd on a real host; less is none.
	StatusLag time.Duration
	// CleanupLinger is how long `qm cleanup` holds the configuration's file lock
	// when a VM is started again within a second of its end.
	CleanupLinger time.Duration

	Internet   guest.Internet        // what hosts and guests download from; nil is guest.DefaultInternet
	Kubernetes guest.Kubernetes      // makes control planes for guests that run K3s
	Network    *guest.Network        // where guests are plugged in; nil makes one, with a DHCP server
	Hypervisor hypervisor.Hypervisor // makes what lives in VMs; nil is package guest
	Log        *slog.Logger          // what happens, at debug level; nil is nothing

	// Heard gets each request once it is answered, in no particular order and by
	// several goroutines at once; nil is nobody.
	Heard func(fault.Request)
	alarm *slog.Logger // for mistakes of our own: Log, or where there is none the program's

	// Lean keeps only the last of what is written down for tests (Requests, and
	// what guests say of themselves), for a Sim that runs for days.
	Lean bool
}

// Timing is how long the work of a host takes.
type Timing struct {
	Call         time.Duration // of pvedaemon, most calls that it answers; 20 ms
	Fork         time.Duration // until a worker's first line; 50 ms
	LinkedClone  time.Duration // a linked clone beside its disks; 700 ms
	LinkedDisk   time.Duration // each of its disks, under the storage's lock; 400 ms
	AllocateDisk time.Duration // an empty disk, under the storage's lock; 300 ms
	Start        time.Duration // of a VM; 2 s
	Stop         time.Duration // of a VM, by force; 1 s
	Destroy      time.Duration // of a VM; 1 s
	Configure    time.Duration // a change of configuration; 50 ms
	Upload       time.Duration // from the temporary file to the storage; 200 ms
	CopyRate     model.Size    // of full clones and imports, per second; 500 MiB
	DownloadRate model.Size    // of download-url, per second; 100 MiB
	PinRate      model.Size    // of memory, where devices are passed through, per second; 4 GiB
}

func (t Timing) orUsual() Timing {
	set := func(d *time.Duration, usual time.Duration) {
		if *d == 0 {
			*d = usual
		}
	}
	set(&t.Call, 20*time.Millisecond)
	set(&t.Fork, 50*time.Millisecond)
	set(&t.LinkedClone, 700*time.Millisecond)
	set(&t.LinkedDisk, 400*time.Millisecond)
	set(&t.AllocateDisk, 300*time.Millisecond)
	set(&t.Start, 2*time.Second)
	set(&t.Stop, time.Second)
	set(&t.Destroy, time.Second)
	set(&t.Configure, 50*time.Millisecond)
	set(&t.Upload, 200*time.Millisecond)
	if t.CopyRate == 0 {
		t.CopyRate = 500 * model.MiB
	}
	if t.DownloadRate == 0 {
		t.DownloadRate = 100 * model.MiB
	}
	if t.PinRate == 0 {
		t.PinRate = 4 * model.GiB
	}
	return t
}

// orUsual are the options with the usual values where nothing is said.
func (o Options) orUsual() Options {
	if o.Speed <= 0 {
		o.Speed = 1
	}
	o.Timing = o.Timing.orUsual()
	if o.Internet == nil {
		o.Internet = guest.DefaultInternet()
	}
	if o.alarm = o.Log; o.Log == nil {
		o.alarm = slog.Default()
		o.Log = slog.New(slog.DiscardHandler)
	}
	return o
}
