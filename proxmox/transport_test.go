package proxmox_test

import (
	"context"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/cps-gpu/homelab/proxmox"
	"github.com/cps-gpu/homelab/secret"
)

const (
	tokenID     = "homelab@pve!cluster"
	tokenSecret = "3fe2a5a5-0000-4000-8000-c0ffee000001"
)

// host is a server that answers what a test says, over real TLS.
type host struct {
	*httptest.Server
	mu    sync.Mutex
	calls map[string]int
}

// serve starts a host. Answers are by method and path below /api2/json.
func serve(t *testing.T, answers map[string]http.HandlerFunc) *host {
	h := &host{calls: map[string]int{}}
	h.Server = httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		key := r.Method + " " + r.URL.Path[len("/api2/json"):]
		h.mu.Lock()
		h.calls[key]++
		h.mu.Unlock()
		answer, ok := answers[key]
		switch {
		case ok:
			answer(w, r)
		case key == "GET /version":
			data(map[string]any{"version": "9.2.11", "release": "9.2"})(w, r)
		default:
			http.Error(w, "", http.StatusNotImplemented)
		}
	}))
	t.Cleanup(h.Close)
	return h
}

func (h *host) count(key string) int {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.calls[key]
}

func data(v any) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json;charset=UTF-8")
		_ = json.NewEncoder(w).Encode(map[string]any{"data": v})
	}
}

// raw answers with a status line that net/http cannot write, as Proxmox does.
func raw(status int, reason, body string) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		conn, buf, err := w.(http.Hijacker).Hijack()
		if err != nil {
			return
		}
		defer conn.Close()
		fmt.Fprintf(buf, "HTTP/1.1 %d %s\r\nContent-Length: %d\r\nConnection: close\r\n\r\n%s", status, reason, len(body), body)
		_ = buf.Flush()
	}
}

func drop(w http.ResponseWriter, _ *http.Request) {
	if conn, _, err := w.(http.Hijacker).Hijack(); err == nil {
		_ = conn.Close()
	}
}

func (h *host) config() proxmox.Config {
	return proxmox.Config{
		Endpoint: h.URL, TokenID: tokenID, TokenSecret: secret.New(tokenSecret), HTTPClient: h.Client(), Poll: 20 * time.Millisecond,
	}
}

func (h *host) dial(t *testing.T) *proxmox.Client {
	c, err := proxmox.Dial(t.Context(), h.config())
	require.NoError(t, err)
	return c
}

// deleteMapping is the shortest request that changes something and has no task.
func deleteMapping(t *testing.T, c *proxmox.Client) error {
	return c.DeleteMapping(t.Context(), "gpu")
}

const mappingPath = "DELETE /cluster/mapping/pci/gpu"

// go-proxmox takes 404, 502, 503, 595 and 596 for success, drops the words of
// 403 and 500, and hides which parameter was wrong.
func TestEveryStatusIsAnError(t *testing.T) {
	for _, tt := range []struct {
		status  int
		reason  string
		body    string
		message string
		class   proxmox.Class
	}{
		{404, "Not Found", `{"data":null}`, "Not Found", proxmox.Permanent},
		{500, "x", `{"data":null,"message":"storage 'none' does not exist\n"}`, "storage 'none' does not exist", proxmox.Permanent},
		{500, "only in the status line", ``, "only in the status line", proxmox.Permanent},
		{500, "x", `{"data":null,"message":"can't lock file '/var/lock/qemu-server/lock-400.conf' - got timeout\n"}`, "got timeout", proxmox.Transient},
		{501, "Method 'DELETE /x' not implemented", `{"data":null}`, "not implemented", proxmox.Permanent},
		{502, "Bad Gateway", `{"data":null}`, "Bad Gateway", proxmox.Unknown},
		{503, "Service Unavailable", `{"data":null}`, "Service Unavailable", proxmox.Unknown},
		{595, "Connection refused", `{"data":null}`, "Connection refused", proxmox.Transient},
		{595, "No route to host", ``, "No route to host", proxmox.Unknown},
		{596, "Connection timed out", `{"data":null}`, "Connection timed out", proxmox.Unknown},
	} {
		t.Run(fmt.Sprint(tt.status, " ", tt.reason), func(t *testing.T) {
			h := serve(t, map[string]http.HandlerFunc{"DELETE /cluster/mapping/pci/other": raw(tt.status, tt.reason, tt.body)})
			err := h.dial(t).DeleteMapping(t.Context(), "other")
			if tt.message == "storage 'none' does not exist" {
				assert.NoError(t, err, "what is to be deleted is gone")
				return
			}
			var e *proxmox.Error
			require.ErrorAs(t, err, &e)
			assert.Equal(t, tt.status, e.Status)
			assert.Contains(t, e.Error(), tt.message)
			assert.Equal(t, tt.class, proxmox.ClassOf(e))
			assert.Equal(t, 1, h.count("DELETE /cluster/mapping/pci/other"), "what changes something is sent once")
		})
	}
}

func TestALockNamesItsVM(t *testing.T) {
	err := &proxmox.Error{Status: 500, Method: "PUT", Path: "/nodes/pve1/qemu/400/config", Message: "VM is locked (backup)"}
	assert.True(t, strings.HasSuffix(err.Error(), "if the host shows no running task: qm unlock 400"), err.Error())
	err.Path = "/cluster/nextid"
	assert.True(t, strings.HasSuffix(err.Error(), "qm unlock VMID"), err.Error())
}

func TestErrorNamesPrivilegeAndCure(t *testing.T) {
	h := serve(t, map[string]http.HandlerFunc{
		mappingPath: raw(403, "x", `{"data":null,"message":"Permission check failed (/mapping/pci, Mapping.Modify)\n"}`),
	})
	err := deleteMapping(t, h.dial(t))
	var e *proxmox.Error
	require.ErrorAs(t, err, &e)
	path, privileges, ok := e.Permission()
	assert.True(t, ok && e.IsPermission())
	assert.Equal(t, "/mapping/pci", path)
	assert.Equal(t, []string{"Mapping.Modify"}, privileges)
	assert.Equal(t, "proxmox: DELETE /cluster/mapping/pci/gpu: Permission check failed (/mapping/pci, Mapping.Modify)\n"+
		"  the token homelab@pve!cluster lacks Mapping.Modify on /mapping/pci; add it to its role on that path: "+
		"pveum role modify ROLE --append 1 --privs Mapping.Modify\n"+
		"  (ROLE: see pveum acl list; a privilege-separated token needs it for itself and for its user)", err.Error())
}

func TestParameterErrorsAreNamed(t *testing.T) {
	h := serve(t, map[string]http.HandlerFunc{
		mappingPath: raw(400, "Parameter verification failed.",
			`{"errors":{"map[0]":"invalid format - format error\nmap[0].id: property is missing\n","id":"too long"},"data":null,"message":"Parameter verification failed.\n"}`),
	})
	err := deleteMapping(t, h.dial(t))
	assert.EqualError(t, err, "proxmox: DELETE /cluster/mapping/pci/gpu: Parameter verification failed. (status 400); "+
		"id: too long; map[0]: invalid format - format error map[0].id: property is missing")
}

func TestOnlyGetsAreSentAgain(t *testing.T) {
	var fails atomic.Int32
	flaky := func(answer http.HandlerFunc) http.HandlerFunc {
		return func(w http.ResponseWriter, r *http.Request) {
			if fails.Add(-1) >= 0 {
				drop(w, r)
				return
			}
			answer(w, r)
		}
	}
	h := serve(t, map[string]http.HandlerFunc{
		"GET /cluster/mapping/pci": flaky(data([]any{})), mappingPath: flaky(data(nil)),
	})
	c := h.dial(t)
	fails.Store(2)
	_, err := c.Mappings(t.Context(), "")
	require.NoError(t, err, "lost twice, answered the third time")
	assert.Equal(t, 3, h.count("GET /cluster/mapping/pci"))

	fails.Store(1)
	err = deleteMapping(t, c)
	var e *proxmox.Error
	require.ErrorAs(t, err, &e)
	assert.Equal(t, proxmox.Unknown, proxmox.ClassOf(e))
	assert.ErrorContains(t, err, "the connection was closed before an answer arrived: whether it was done is not known")
	assert.Equal(t, 1, h.count(mappingPath))
}

func TestDialExplains(t *testing.T) {
	t.Run("token", func(t *testing.T) {
		h := serve(t, map[string]http.HandlerFunc{"GET /version": raw(401, "Authentication failed!", "")})
		_, err := proxmox.Dial(t.Context(), h.config())
		require.ErrorIs(t, err, proxmox.ErrUnauthorized)
		assert.EqualError(t, err, "proxmox: GET /version: Authentication failed! (status 401)\n"+
			"  the token homelab@pve!cluster is unknown, expired or disabled, or its secret is wrong: see pveum user token list homelab@pve")
		assert.Equal(t, 1, h.count("GET /version"), "a wrong token costs three seconds each time")
	})
	t.Run("unreachable", func(t *testing.T) {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		require.NoError(t, err)
		_ = l.Close()
		_, err = proxmox.Dial(t.Context(), proxmox.Config{Endpoint: l.Addr().String(), TokenID: tokenID, TokenSecret: secret.New(tokenSecret), Insecure: true})
		assert.ErrorContains(t, err, "cannot be reached")
		assert.ErrorContains(t, err, "connection refused")
		assert.NotContains(t, err.Error(), "whether it was done")
	})
	t.Run("not Proxmox", func(t *testing.T) {
		h := serve(t, map[string]http.HandlerFunc{"GET /version": data(map[string]any{})})
		_, err := proxmox.Dial(t.Context(), h.config())
		assert.ErrorContains(t, err, "not as Proxmox VE does")
	})
}

func TestDialTrusts(t *testing.T) {
	t.Run("unknown authority", func(t *testing.T) {
		h := serve(t, nil)
		cfg := h.config()
		cfg.HTTPClient = nil
		_, err := proxmox.Dial(t.Context(), cfg)
		var e *proxmox.TLSError
		require.ErrorAs(t, err, &e)
		assert.Equal(t, proxmox.Fingerprint(h.Certificate()), e.Fingerprint)
		assert.ErrorContains(t, err, e.Fingerprint)
		assert.ErrorContains(t, err, "pvenode cert info")
	})
	t.Run("fingerprint", func(t *testing.T) {
		h := serve(t, nil)
		cfg := h.config()
		cfg.HTTPClient, cfg.Fingerprint = nil, proxmox.Fingerprint(h.Certificate())
		_, err := proxmox.Dial(t.Context(), cfg)
		require.NoError(t, err)
		cfg.Fingerprint = "00" + cfg.Fingerprint[2:]
		_, err = proxmox.Dial(t.Context(), cfg)
		var e *proxmox.TLSError
		require.ErrorAs(t, err, &e)
		assert.Equal(t, cfg.Fingerprint, e.Want)
		assert.Zero(t, h.count("GET /nothing"))
		cfg.Fingerprint = "abc"
		_, err = proxmox.Dial(t.Context(), cfg)
		assert.ErrorContains(t, err, `fingerprint "abc" is not a SHA-256 fingerprint`)
	})
	t.Run("CA file", func(t *testing.T) {
		h := serve(t, nil)
		cfg := h.config()
		cfg.HTTPClient, cfg.CAFile = nil, filepath.Join(t.TempDir(), "ca.pem")
		require.NoError(t, os.WriteFile(cfg.CAFile, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: h.Certificate().Raw}), 0o600))
		_, err := proxmox.Dial(t.Context(), cfg)
		require.NoError(t, err)
		require.NoError(t, os.WriteFile(cfg.CAFile, []byte("x"), 0o600))
		_, err = proxmox.Dial(t.Context(), cfg)
		assert.ErrorContains(t, err, "holds no PEM certificate")
	})
}

func TestDialRefusesBadInput(t *testing.T) {
	good := proxmox.Config{Endpoint: "pve1", TokenID: tokenID, TokenSecret: secret.New(tokenSecret)}
	for want, change := range map[string]func(*proxmox.Config){
		"is not an address":     func(c *proxmox.Config) { c.Endpoint = "" },
		"https only":            func(c *proxmox.Config) { c.Endpoint = "http://pve1" },
		"is not Proxmox's API":  func(c *proxmox.Config) { c.Endpoint = "https://pve1/ui" },
		"does not belong":       func(c *proxmox.Config) { c.Endpoint = "https://root:pw@pve1" },
		"write user@realm!name": func(c *proxmox.Config) { c.TokenID = "root@pam" },
		"is empty":              func(c *proxmox.Config) { c.TokenSecret = secret.Value{} },
		"blanks or line ends":   func(c *proxmox.Config) { c.TokenSecret = secret.New("a\nb-secret") },
		"CA file":               func(c *proxmox.Config) { c.CAFile = "/nonexistent" },
	} {
		cfg := good
		change(&cfg)
		_, err := proxmox.Dial(t.Context(), cfg)
		require.ErrorContains(t, err, want)
		assert.NotContains(t, err.Error(), "b-secret")
	}
}

func TestEndpointSpellings(t *testing.T) {
	h := serve(t, nil)
	address := h.Listener.Addr().String()
	for _, s := range []string{address, "https://" + address, "https://" + address + "/", "https://" + address + "/api2/json", address + "/api2/json/"} {
		cfg := h.config()
		cfg.Endpoint = s
		c, err := proxmox.Dial(t.Context(), cfg)
		require.NoError(t, err, s)
		assert.Equal(t, address, c.Endpoint())
		assert.Equal(t, 9, c.Version().Major())
	}
}

// A null task id makes go-proxmox return a nil task, and waiting on it panics. It
// says nothing about the work, so the VM is looked at.
func TestNullTaskID(t *testing.T) {
	var running atomic.Bool
	const start = "POST /nodes/pve1/qemu/100/status/start"
	h := serve(t, map[string]http.HandlerFunc{
		start:                   func(w http.ResponseWriter, r *http.Request) { running.Store(true); data(nil)(w, r) },
		"GET /nodes/pve1/tasks": data([]any{}),
		"GET /nodes/pve1/qemu/100/status/current": func(w http.ResponseWriter, r *http.Request) {
			data(map[string]any{"status": map[bool]string{true: "running", false: "stopped"}[running.Load()]})(w, r)
		},
	})
	vm := &proxmox.VM{Name: "a", Host: "pve1", VMID: 100}
	require.NoError(t, h.dial(t).Start(t.Context(), vm))
	assert.True(t, vm.Running)
	assert.Equal(t, 1, h.count(start))
}

// go-proxmox's waits sleep on without looking at the context.
func TestCancelIsPrompt(t *testing.T) {
	const upid = "UPID:pve1:000000F8:00052D55:6B007E1A:qmstart:100:homelab@pve!cluster:"
	h := serve(t, map[string]http.HandlerFunc{
		"POST /nodes/pve1/qemu/100/status/start": data(upid),
		"GET /nodes/pve1/tasks":                  data([]any{map[string]any{"upid": upid, "id": "100", "type": "qmstart", "starttime": 1}}),
	})
	cfg := h.config()
	cfg.Poll = time.Hour
	c, err := proxmox.Dial(t.Context(), cfg)
	require.NoError(t, err)
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- c.Start(ctx, &proxmox.VM{Name: "a", Host: "pve1", VMID: 100}) }()
	require.Eventually(t, func() bool { return h.count("GET /nodes/pve1/tasks") > 0 }, 5*time.Second, 5*time.Millisecond)
	begun := time.Now()
	cancel()
	require.ErrorIs(t, <-done, context.Canceled)
	assert.Less(t, time.Since(begun), 200*time.Millisecond)
}

func TestNoSecretInErrors(t *testing.T) {
	h := serve(t, map[string]http.HandlerFunc{mappingPath: raw(500, "boom", "")})
	err := deleteMapping(t, h.dial(t))
	require.Error(t, err)
	for e := err; e != nil; e = errors.Unwrap(e) {
		assert.NotContains(t, fmt.Sprintf("%v %+v %#v", e, e, e), tokenSecret)
	}
}

// The end of a context ends the reading of what Proxmox says as well.
func TestCancelWhileAnErrorArrives(t *testing.T) {
	held := make(chan struct{})
	h := serve(t, map[string]http.HandlerFunc{mappingPath: func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Length", "1000")
		w.WriteHeader(http.StatusInternalServerError)
		_ = http.NewResponseController(w).Flush()
		<-held
	}})
	defer close(held)
	c := h.dial(t)
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	require.ErrorIs(t, c.DeleteMapping(ctx, "gpu"), context.DeadlineExceeded)
}

// An answer that breaks off says what its status line says.
func TestAnErrorThatBreaksOff(t *testing.T) {
	h := serve(t, map[string]http.HandlerFunc{mappingPath: func(w http.ResponseWriter, _ *http.Request) {
		if conn, buf, err := w.(http.Hijacker).Hijack(); err == nil {
			fmt.Fprint(buf, "HTTP/1.1 500 no room left\r\nContent-Length: 100\r\n\r\n{")
			_ = buf.Flush()
			_ = conn.Close()
		}
	}})
	assert.ErrorContains(t, deleteMapping(t, h.dial(t)), "no room left (status 500)")
}
