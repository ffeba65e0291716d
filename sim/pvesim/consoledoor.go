package pvesim

import (
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"time"

	"github.com/gorilla/websocket"
)

// keep is the task behind a door: it waits for somebody, and until they have gone.
func (w worker) keep(d *door) error {
	defer close(d.end)
	for _, gone := range []chan struct{}{d.entry, d.exit} {
		wait := time.NewTimer(consoleTimeout)
		expired := wait.C
		if gone == d.exit {
			expired = nil // who is in may stay
		}
		var err error
		w.s.outside(func() {
			select {
			case <-gone:
			case <-expired:
				err = die("connection timed out")
			case <-w.task.stop:
				err = errStopped
			case <-w.s.done:
				err = errClosed
			}
		})
		wait.Stop()
		if err != nil {
			return err
		}
	}
	return nil
}

// walksIn reports whether a request wants to speak WebSocket.
func walksIn(r *http.Request) bool {
	return strings.HasSuffix(r.URL.Path, "/vncwebsocket") && strings.EqualFold(r.Header.Get("Upgrade"), "websocket")
}

// enter takes somebody whose ticket is right through the door at the port that they name.
func (s *state) enter(w http.ResponseWriter, r *http.Request) {
	conn, err := (&websocket.Upgrader{Subprotocols: []string{"binary"}, CheckOrigin: func(*http.Request) bool { return true }}).Upgrade(w, r, nil)
	if err != nil {
		return // it has told the client
	}
	defer func() { _ = conn.Close() }()
	conn.SetCloseHandler(func(int, string) error { return nil }) // pveproxy hangs up without a word
	d := s.openDoor(atoi(r.URL.Query().Get("port")), r.URL.Query().Get("vncticket"))
	if d == nil {
		return // pveproxy cannot connect to the port
	}
	over := make(chan struct{})
	defer close(over)
	go func() { // ends with this function
		select {
		case <-d.end:
			select {
			case <-d.exit: // it has ended because they have left
				return
			default:
			}
		case <-s.done:
		case <-over:
		}
		_ = conn.Close()
	}()
	stream := &frames{conn: conn}
	if d.kind == screen {
		_ = serveScreen(stream)
	} else {
		_ = s.serveTerminal(s.life, d, stream)
	}
	close(d.exit)
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
func (s *state) openDoor(port int, ticket string) *door {
	s.mu.Lock()
	defer s.mu.Unlock()
	d := s.doors[port]
	if d == nil || d.free(time.Now()) || !strings.HasSuffix(ticket, d.ticket) {
		return nil
	}
	select {
	case <-d.entry:
		return nil
	default:
	}
	close(d.entry)
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
