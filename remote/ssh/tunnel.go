package ssh

import (
	"io"
	"net"
	"sync"
	"time"
)

// tunnel is a TCP connection made on the other side. Closing the channel itself waits for the
// server; the two pipes in between let Close end every Read and Write at once, which an SSH
// connection inside relies on.
type tunnel struct {
	net.Conn // the channel: for addresses; it has no deadlines
	in       *io.PipeReader
	out      *io.PipeWriter
	sent     chan struct{} // closed when all that was written is on its way
	closing  sync.Once
}

// linger is how long a closed tunnel still tries to send pending data.
const linger = 5 * time.Second

// newTunnel turns a channel into a tunnel; done is called when the channel has ended.
func newTunnel(channel net.Conn, done func()) *tunnel {
	in, fromFar := io.Pipe()
	toFar, out := io.Pipe()
	t := &tunnel{Conn: channel, in: in, out: out, sent: make(chan struct{})}
	var pumps sync.WaitGroup
	pumps.Go(func() {
		_, err := io.Copy(fromFar, channel)
		_ = fromFar.CloseWithError(err) // nil is an end of file
	})
	pumps.Go(func() {
		defer close(t.sent)
		_, err := io.Copy(channel, toFar)
		if err == nil {
			if half, ok := channel.(interface{ CloseWrite() error }); ok {
				err = half.CloseWrite()
			}
		}
		_ = toFar.CloseWithError(err) // nil is io.ErrClosedPipe
	})
	go func() {
		pumps.Wait()
		_ = channel.Close()
		done()
	}()
	return t
}

func (t *tunnel) Read(p []byte) (int, error)  { return t.in.Read(p) }
func (t *tunnel) Write(p []byte) (int, error) { return t.out.Write(p) }

// CloseWrite says that nothing more will be sent, as for a *net.TCPConn.
func (t *tunnel) CloseWrite() error { return t.out.Close() }

// Close never waits for the other side.
func (t *tunnel) Close() error {
	t.closing.Do(func() {
		_ = t.in.CloseWithError(net.ErrClosed)
		_ = t.out.Close()
		go func() {
			timer := time.NewTimer(linger)
			defer timer.Stop()
			select {
			case <-t.sent:
			case <-timer.C:
			}
			_ = t.Conn.Close() // ends the pumps, when the server or the keep-alive says so
		}()
	})
	return nil
}
