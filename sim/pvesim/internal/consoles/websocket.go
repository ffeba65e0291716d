package consoles

import (
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"time"

	"github.com/gorilla/websocket"

	"github.com/cps-gpu/homelab/sim/pvesim/internal/answer"
	"github.com/cps-gpu/homelab/sim/pvesim/internal/schema"
	"github.com/cps-gpu/homelab/sim/pvesim/internal/world"
)

// keep is the task behind a door: it waits for somebody, and until they have gone.
func keep(w world.Worker, d *world.Door) error {
	defer close(d.End)
	for _, gone := range []chan struct{}{d.Entry, d.Exit} {
		wait := time.NewTimer(consoleTimeout)
		expired := wait.C
		if gone == d.Exit {
			expired = nil // who is in may stay
		}
		var err error
		w.State.WithoutLock(func() {
			select {
			case <-gone:
			case <-expired:
				err = answer.Die("connection timed out")
			case <-w.Task.Stop:
				err = world.ErrStopped
			case <-w.State.Done:
				err = world.ErrClosed
			}
		})
		wait.Stop()
		if err != nil {
			return err
		}
	}
	return nil
}

// WalksIn reports whether a request wants to speak WebSocket.
func WalksIn(r *http.Request) bool {
	return strings.HasSuffix(r.URL.Path, "/vncwebsocket") && strings.EqualFold(r.Header.Get("Upgrade"), "websocket")
}

// Enter takes somebody whose ticket is right through the door at the port that they name.
func Enter(s *world.State, w http.ResponseWriter, r *http.Request) {
	conn, err := (&websocket.Upgrader{Subprotocols: []string{"binary"}, CheckOrigin: func(*http.Request) bool { return true }}).Upgrade(w, r, nil)
	if err != nil {
		return // it has told the client
	}
	defer func() { _ = conn.Close() }()
	conn.SetCloseHandler(func(int, string) error { return nil }) // pveproxy hangs up silently
	d := openDoor(s, schema.Atoi(r.URL.Query().Get("port")), r.URL.Query().Get("vncticket"))
	if d == nil {
		return // pveproxy cannot connect to the port
	}
	over := make(chan struct{})
	defer close(over)
	go func() { // ends with this function
		select {
		case <-d.End:
			select {
			case <-d.Exit: // it has ended because they have left
				return
			default:
			}
		case <-s.Done:
		case <-over:
		}
		_ = conn.Close()
	}()
	stream := &frames{conn: conn}
	if d.Kind == world.Screen {
		_ = serveScreen(stream)
	} else {
		_ = serveTerminal(s, s.Life, d, stream)
	}
	close(d.Exit)
	sendClose(conn.NetConn())
}

// goodbye is how long a client may take to hang up, too.
const goodbye = 10 * time.Second

// sendClose ends a connection as pveproxy does: its own side first, so that what the
// client still says is not an error to it.
func sendClose(conn net.Conn) {
	if half, ok := conn.(interface{ CloseWrite() error }); ok {
		_ = half.CloseWrite()
	}
	_ = conn.SetReadDeadline(time.Now().Add(goodbye))
	_, _ = io.Copy(io.Discard, conn)
}

// openDoor is the door at a port, which it marks as used; nil where there is none.
func openDoor(s *world.State, port int, ticket string) *world.Door {
	s.Mu.Lock()
	defer s.Mu.Unlock()
	d := s.Doors[port]
	if d == nil || d.Free(time.Now()) || !strings.HasSuffix(ticket, d.Ticket) {
		return nil
	}
	select {
	case <-d.Entry:
		return nil
	default:
	}
	close(d.Entry)
	return d
}

// frames is what goes through a WebSocket as a stream: where one frame ends and the next
// begins means nothing.
type frames struct {
	conn *websocket.Conn
	rest []byte
}

func (f *frames) Read(p []byte) (int, error) {
	for len(f.rest) == 0 {
		_, data, err := f.conn.ReadMessage()
		if err != nil {
			return 0, fmt.Errorf("console: %w", err)
		}
		f.rest = data
	}
	n := copy(p, f.rest)
	f.rest = f.rest[n:]
	return n, nil
}

func (f *frames) Write(p []byte) (int, error) {
	if err := f.conn.WriteMessage(websocket.BinaryMessage, p); err != nil {
		return 0, fmt.Errorf("console: %w", err)
	}
	return len(p), nil
}
