package pvesim

import (
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/gorilla/websocket"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// visitor is at a console.
type visitor struct {
	t    *testing.T
	conn *websocket.Conn
	seen string
}

// visit opens a console and walks in, as browsers do.
func visit(t *testing.T, s *Sim, opens, enters string) (*visitor, map[string]any) {
	t.Helper()
	c := asRoot(t, s)
	open := c.do("POST", opens, "websocket", "1")
	if open.status == http.StatusBadRequest { // a terminal is always one
		open = c.do("POST", opens)
	}
	about := open.object()
	require.NotEmpty(t, about["ticket"], open.body)
	server := httptest.NewServer(s.Handler())
	t.Cleanup(server.Close)
	query := url.Values{"port": {about["port"].(string)}, "vncticket": {about["ticket"].(string)}}
	conn, answer, err := (&websocket.Dialer{Subprotocols: []string{"binary"}}).DialContext(t.Context(),
		strings.Replace(server.URL, "http", "ws", 1)+"/api2/json"+enters+"?"+query.Encode(), http.Header{"Authorization": {c.auth}})
	require.NoError(t, err)
	defer func() { _ = answer.Body.Close() }()
	t.Cleanup(func() { _ = conn.Close() })
	assert.Equal(t, "binary", conn.Subprotocol())
	return &visitor{t: t, conn: conn}, about
}

func (v *visitor) say(text string) {
	v.t.Helper()
	require.NoError(v.t, v.conn.WriteMessage(websocket.BinaryMessage, []byte(text)))
}

// sees waits until a text was shown.
func (v *visitor) sees(text string) {
	v.t.Helper()
	require.NoError(v.t, v.conn.SetReadDeadline(time.Now().Add(10*time.Second)))
	for !strings.Contains(v.seen, text) {
		_, data, err := v.conn.ReadMessage()
		require.NoError(v.t, err, "saw %q instead of %q", v.seen, text)
		v.seen += string(data)
	}
	_, v.seen, _ = strings.Cut(v.seen, text)
}

// A door that closed within a tenth of a second, as all else is a hundred times faster, was
// too quick for clients on a busy machine.
func TestADoorWaitsForThoseWhoLiveOutside(t *testing.T) {
	in(t, OneGPU(), Options{Speed: 100}, func(t *testing.T, s *Sim, _ *caller) {
		c := asRoot(t, s)
		upid, _ := c.do("POST", "/nodes/pve1/termproxy").object()["upid"].(string)
		status := func() string { return c.do("GET", "/nodes/pve1/tasks/"+upid+"/status").body }
		time.Sleep(9 * time.Second)
		assert.Contains(t, status(), `"status":"running"`)
		time.Sleep(2 * time.Second)
		assert.Contains(t, status(), `"exitstatus":"connection timed out"`)
	})
}

func TestTerminalOfANode(t *testing.T) {
	s := New(OneGPU(), Options{Speed: 100})
	defer s.Close()
	v, about := visit(t, s, "/nodes/pve1/termproxy", "/nodes/pve1/vncwebsocket")
	v.say(about["user"].(string) + ":" + about["ticket"].(string) + "\n")
	v.sees("OK")
	v.sees("root@pve1:~# ")
	v.say("1:-1:-1:")
	v.say("2")
	v.say("0:9:hostna") // frames are cut anywhere
	v.say("me\n")
	v.sees("hostname\r\npve1\r\n")
	v.say("0:5:exit\n")
	v.sees("logout")
	assert.Equal(t, "OK", asRoot(t, s).wait(reply{Data: []byte(`"` + about["upid"].(string) + `"`)}), "its task ends with it")
}

func TestTerminalOfAMachine(t *testing.T) {
	s := New(EightA100(), Options{Speed: 100})
	defer s.Close()
	v, about := visit(t, s, "/nodes/pve1/qemu/104/termproxy", "/nodes/pve1/qemu/104/vncwebsocket")
	v.say(about["user"].(string) + ":" + about["ticket"].(string) + "\n")
	v.sees("unable to find a serial interface")
}

func TestTerminalWantsTheTicket(t *testing.T) {
	s := New(OneGPU(), Options{Speed: 100})
	defer s.Close()
	v, _ := visit(t, s, "/nodes/pve1/termproxy", "/nodes/pve1/vncwebsocket")
	v.say("root@pam:PVEVNC:nonsense\n")
	_, _, err := v.conn.ReadMessage()
	assert.Error(t, err)
}

func TestScreenLetsNobodyIn(t *testing.T) {
	s := New(EightA100(), Options{Speed: 100})
	defer s.Close()
	v, _ := visit(t, s, "/nodes/pve1/qemu/104/vncproxy", "/nodes/pve1/qemu/104/vncwebsocket")
	v.sees("RFB 003.008\n")
	v.say("RFB 003.008\n")
	v.sees("\x01\x02")
	v.say("\x02")
	_, challenge, err := v.conn.ReadMessage()
	require.NoError(t, err)
	assert.Len(t, challenge, 16)
	v.say(strings.Repeat("x", 16))
	v.sees("a simulated machine has no screen")
	require.NoError(t, v.conn.WriteMessage(websocket.CloseMessage, nil))
	_, _, err = v.conn.ReadMessage()
	assert.True(t, websocket.IsCloseError(err, websocket.CloseAbnormalClosure), "a close is answered by none: %v", err)
}
