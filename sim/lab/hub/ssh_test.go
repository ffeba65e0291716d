package hub

import (
	"crypto/ed25519"
	"net"
	"net/http"
	"net/url"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	xssh "golang.org/x/crypto/ssh"
	"golang.org/x/net/websocket"
)

// dialSSH logs in to a server as websocat and ssh do.
func (w *world) dialSSH(t *testing.T, user, token string, key xssh.Signer) (*xssh.Client, error) {
	t.Helper()
	config, err := websocket.NewConfig(strings.Replace(w.url, "http", "ws", 1)+"/user/"+user+"/ssh/", w.url)
	require.NoError(t, err)
	config.Header = http.Header{"Authorization": {"token " + token}}
	ws, err := websocket.DialConfig(config)
	if err != nil {
		return nil, err
	}
	t.Cleanup(func() { _ = ws.Close() })
	ws.PayloadType = websocket.BinaryFrame
	conn, channels, requests, err := xssh.NewClientConn(ws, "notebook", &xssh.ClientConfig{User: "jovyan", Auth: []xssh.AuthMethod{xssh.PublicKeys(key)},
		HostKeyCallback: func(string, net.Addr, xssh.PublicKey) error { return nil }})
	if err != nil {
		return nil, err
	}
	return xssh.NewClient(conn, channels, requests), nil
}

func newUserKey(t *testing.T) xssh.Signer {
	t.Helper()
	_, private, err := ed25519.GenerateKey(nil)
	require.NoError(t, err)
	key, err := xssh.NewSignerFromKey(private)
	require.NoError(t, err)
	return key
}

// TestSSH: a token of the user's and a key, given with the profile and kept in the home, together lead into the user's own server, and nothing else does.
func TestSSH(t *testing.T) {
	w := newWorld(t, sharedPassword)
	key, other := newUserKey(t), newUserKey(t)
	w.keys = "# mine\n"
	p, q := w.person(t), w.person(t)
	p.start("student1", "ssh", "ssh", "unlisted-choice", "ssh--unlisted-choice", strings.TrimSpace(string(xssh.MarshalAuthorizedKey(key.PublicKey()))))
	q.start("student2", "cpu")
	token := func(p *person) string {
		status, _, text := p.ask("POST", "/hub/token", url.Values{})
		require.Equal(t, http.StatusOK, status)
		return regexp.MustCompile(`<code id="token">([A-Z0-9]+)</code>`).FindStringSubmatch(text)[1]
	}
	mine, theirs := token(p), token(q)

	client, err := w.dialSSH(t, "student1", mine, key)
	require.NoError(t, err)
	session, err := client.NewSession()
	require.NoError(t, err)
	out, err := session.Output("hostname")
	require.NoError(t, err)
	assert.Equal(t, "jupyter-student1\n", string(out))
	session, err = client.NewSession()
	require.NoError(t, err)
	var exit *xssh.ExitError
	require.ErrorAs(t, session.Run("false"), &exit)

	for name, c := range map[string]struct {
		user, token string
		key         xssh.Signer
	}{
		"another's token":   {"student1", theirs, key},
		"no token":          {"student1", "", key},
		"another's server":  {"student2", mine, key},
		"no key":            {"student1", mine, other},
		"a profile without": {"student2", theirs, key},
	} {
		_, err := w.dialSSH(t, c.user, c.token, c.key)
		assert.Error(t, err, name)
	}
}
