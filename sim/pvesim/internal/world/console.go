package world

import "time"

// Door is a console that somebody may come in by, once: a port of the host on which
// termproxy or a VNC server waits for ten seconds.
type Door struct {
	Until  time.Time
	Kind   ConsoleKind
	User   string
	Ticket string
	Node   string
	VM     *VM           // nil where the console is the node's
	Entry  chan struct{} // closed when somebody comes in
	Exit   chan struct{} // closed when they have left
	End    chan struct{} // closed when its task ends
}

// ConsoleKind is what is spoken behind a door.
type ConsoleKind int

const (
	Terminal ConsoleKind = iota
	Screen
)

// Free reports whether the door's port may be given out again.
func (d *Door) Free(now time.Time) bool {
	select {
	case <-d.End:
		return true
	default:
		return d.Until.Before(now)
	}
}
