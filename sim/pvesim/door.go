package pvesim

import "time"

// door is a console that somebody may come in by, once: a port of the host on which
// termproxy or a VNC server waits for ten seconds.
type door struct {
	until  time.Time
	kind   consoleKind
	user   string
	ticket string
	node   string
	vm     *vm           // nil where the console is the node's
	entry  chan struct{} // closed when somebody comes in
	exit   chan struct{} // closed when they have left
	end    chan struct{} // closed when its task ends
}

// consoleKind is what is spoken behind a door.
type consoleKind int

const (
	terminal consoleKind = iota
	screen
)

// free reports whether the door's port may be given out again.
func (d *door) free(now time.Time) bool {
	select {
	case <-d.end:
		return true
	default:
		return d.until.Before(now)
	}
}
