package api_test

import (
	"context"
	"encoding/pem"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/cps-gpu/homelab/proxmox/internal/api"
	"github.com/cps-gpu/homelab/secret"
)

const mappingPath = "DELETE /cluster/mapping/pci/gpu"

// go-proxmox takes 404, 502, 503, 595 and 596 for success, drops the words of
// 403 and 500, and hides which parameter was wrong.
func TestEveryStatusIsAnError(t *testing.T) {
	for _, tt := range []struct {
		status  int
		reason  string
		body    string
		message string
		class   api.Class
	}{
		{404, "Not Found", `{"data":null}`, "Not Found", api.Permanent},
		{500, "x", `{"data":null,"message":"storage 'none' does not exist\n"}`, "storage 'none' does not exist", api.Permanent},
		{500, "only in the status line", ``, "only in the status line", api.Permanent},
		{500, "x", `{"data":null,"message":"can't lock file '/var/lock/qemu-server/lock-400.conf' - got timeout\n"}`, "got timeout", api.Transient},
		{501, "Method 'DELETE /x' not implemented", `{"data":null}`, "not implemented", api.Permanent},
		{502, "Bad Gateway", `{"data":null}`, "Bad Gateway", api.Unknown},
		{503, "Service Unavailable", `{"data":null}`, "Service Unavailable", api.Unknown},
		{595, "Connection refused", `{"data":null}`, "Connection refused", api.Transient},
		{595, "No route to host", ``, "No route to host", api.Unknown},
		{596, "Connection timed out", `{"data":null}`, "Connection timed out", api.Unknown},
	} {
		t.Run(fmt.Sprint(tt.status, " ", tt.reason), func(t *testing.T) {
			h := serve(t, map[string]http.HandlerFunc{"DELETE /cluster/mapping/pci/other": raw(tt.status, tt.reason, tt.body)})
			err := h.dial(t).Call(t.Context(), http.MethodDelete, "/cluster/mapping/pci/other", nil, nil)
			if tt.message == "storage 'none' does not exist" {
				assert.ErrorIs(t, err, api.ErrNotFound)
			}
			var e *api.Error
			require.ErrorAs(t, err, &e)
			assert.Equal(t, tt.status, e.Status)
			assert.Contains(t, e.Error(), tt.message)
			assert.Equal(t, tt.class, api.ClassOf(e))
			assert.Equal(t, 1, h.Count("DELETE /cluster/mapping/pci/other"), "what changes something is sent once")
		})
	}
}

func TestALockNamesItsVM(t *testing.T) {
	err := &api.Error{Status: 500, Method: "PUT", Path: "/nodes/pve1/qemu/400/config", Message: "VM is locked (backup)"}
	assert.True(t, strings.HasSuffix(err.Error(), "if the host shows no running task: qm unlock 400"), err.Error())
	err.Path = "/cluster/nextid"
	assert.True(t, strings.HasSuffix(err.Error(), "qm unlock VMID"), err.Error())
}

func TestErrorNamesPrivilegeAndCure(t *testing.T) {
	h := serve(t, map[string]http.HandlerFunc{
		mappingPath: raw(403, "x", `{"data":null,"message":"Permission check failed (/mapping/pci, Mapping.Modify)\n"}`),
	})
	err := deleteMapping(t, h.dial(t))
	var e *api.Error
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
	err := c.Get(t.Context(), "/cluster/mapping/pci", nil, nil)
	require.NoError(t, err, "lost twice, answered the third time")
	assert.Equal(t, 3, h.Count("GET /cluster/mapping/pci"))

	fails.Store(1)
	err = deleteMapping(t, c)
	var e *api.Error
	require.ErrorAs(t, err, &e)
	assert.Equal(t, api.Unknown, api.ClassOf(e))
	assert.ErrorContains(t, err, "the connection was closed before an answer arrived: whether it was done is not known")
	assert.Equal(t, 1, h.Count(mappingPath))
}

func TestDialExplains(t *testing.T) {
	t.Run("token", func(t *testing.T) {
		h := serve(t, map[string]http.HandlerFunc{"GET /version": raw(401, "Authentication failed!", "")})
		_, err := api.Dial(t.Context(), h.Config())
		require.ErrorIs(t, err, api.ErrUnauthorized)
		assert.EqualError(t, err, "proxmox: GET /version: Authentication failed! (status 401)\n"+
			"  the token homelab@pve!cluster is unknown, expired or disabled, or its secret is wrong: see pveum user token list homelab@pve")
		assert.Equal(t, 1, h.Count("GET /version"), "a wrong token costs three seconds each time")
	})
	t.Run("unreachable", func(t *testing.T) {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		require.NoError(t, err)
		_ = l.Close()
		_, err = api.Dial(t.Context(), api.Config{Endpoint: l.Addr().String(), TokenID: tokenID, TokenSecret: secret.New(tokenSecret), Insecure: true})
		assert.ErrorContains(t, err, "cannot be reached")
		assert.ErrorContains(t, err, "connection refused")
		assert.NotContains(t, err.Error(), "whether it was done")
	})
	t.Run("not Proxmox", func(t *testing.T) {
		h := serve(t, map[string]http.HandlerFunc{"GET /version": data(map[string]any{})})
		_, err := api.Dial(t.Context(), h.Config())
		assert.ErrorContains(t, err, "not as Proxmox VE does")
	})
}

func TestDialTrusts(t *testing.T) {
	t.Run("unknown authority", func(t *testing.T) {
		h := serve(t, nil)
		cfg := h.Config()
		cfg.HTTPClient = nil
		_, err := api.Dial(t.Context(), cfg)
		var e *api.TLSError
		require.ErrorAs(t, err, &e)
		assert.Equal(t, api.Fingerprint(h.Certificate()), e.Fingerprint)
		assert.ErrorContains(t, err, e.Fingerprint)
		assert.ErrorContains(t, err, "pvenode cert info")
	})
	t.Run("fingerprint", func(t *testing.T) {
		h := serve(t, nil)
		cfg := h.Config()
		cfg.HTTPClient, cfg.Fingerprint = nil, api.Fingerprint(h.Certificate())
		_, err := api.Dial(t.Context(), cfg)
		require.NoError(t, err)
		cfg.Fingerprint = "00" + cfg.Fingerprint[2:]
		_, err = api.Dial(t.Context(), cfg)
		var e *api.TLSError
		require.ErrorAs(t, err, &e)
		assert.Equal(t, cfg.Fingerprint, e.Want)
		assert.Zero(t, h.Count("GET /nothing"))
		cfg.Fingerprint = "abc"
		_, err = api.Dial(t.Context(), cfg)
		assert.ErrorContains(t, err, `fingerprint "abc" is not a SHA-256 fingerprint`)
	})
	t.Run("CA file", func(t *testing.T) {
		h := serve(t, nil)
		cfg := h.Config()
		cfg.HTTPClient, cfg.CAFile = nil, filepath.Join(t.TempDir(), "ca.pem")
		require.NoError(t, os.WriteFile(cfg.CAFile, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: h.Certificate().Raw}), 0o600))
		_, err := api.Dial(t.Context(), cfg)
		require.NoError(t, err)
		require.NoError(t, os.WriteFile(cfg.CAFile, []byte("x"), 0o600))
		_, err = api.Dial(t.Context(), cfg)
		assert.ErrorContains(t, err, "holds no PEM certificate")
	})
}

func TestDialRefusesBadInput(t *testing.T) {
	good := api.Config{Endpoint: "pve1", TokenID: tokenID, TokenSecret: secret.New(tokenSecret)}
	for want, change := range map[string]func(*api.Config){
		"is not an address":     func(c *api.Config) { c.Endpoint = "" },
		"https only":            func(c *api.Config) { c.Endpoint = "http://pve1" },
		"is not Proxmox's API":  func(c *api.Config) { c.Endpoint = "https://pve1/ui" },
		"does not belong":       func(c *api.Config) { c.Endpoint = "https://root:pw@pve1" },
		"write user@realm!name": func(c *api.Config) { c.TokenID = "root@pam" },
		"is empty":              func(c *api.Config) { c.TokenSecret = secret.Value{} },
		"blanks or line ends":   func(c *api.Config) { c.TokenSecret = secret.New("a\nb-secret") },
		"CA file":               func(c *api.Config) { c.CAFile = "/nonexistent" },
	} {
		cfg := good
		change(&cfg)
		_, err := api.Dial(t.Context(), cfg)
		require.ErrorContains(t, err, want)
		assert.NotContains(t, err.Error(), "b-secret")
	}
}

// Every two of the fields that say how the certificate is checked exclude each other.
func TestDialRefusesTwoWaysToCheckTheCertificate(t *testing.T) {
	ways := map[string]func(*api.Config){
		"CAFile":      func(c *api.Config) { c.CAFile = "/etc/pve/pve-root-ca.pem" },
		"Fingerprint": func(c *api.Config) { c.Fingerprint = strings.Repeat("AB", 32) },
		"Insecure":    func(c *api.Config) { c.Insecure = true },
		"HTTPClient":  func(c *api.Config) { c.HTTPClient = http.DefaultClient },
	}
	for a := range ways {
		for b := range ways {
			if a == b {
				continue
			}
			cfg := api.Config{Endpoint: "pve1", TokenID: tokenID, TokenSecret: secret.New(tokenSecret)}
			ways[a](&cfg)
			ways[b](&cfg)
			_, err := api.Dial(t.Context(), cfg)
			require.ErrorContains(t, err, "exclude each other", "%s and %s", a, b)
			assert.ErrorContains(t, err, a)
			assert.ErrorContains(t, err, b)
		}
	}
}

func TestEndpointSpellings(t *testing.T) {
	h := serve(t, nil)
	address := h.Listener.Addr().String()
	for _, s := range []string{address, "https://" + address, "https://" + address + "/", "https://" + address + "/api2/json", address + "/api2/json/"} {
		cfg := h.Config()
		cfg.Endpoint = s
		c, err := api.Dial(t.Context(), cfg)
		require.NoError(t, err, s)
		assert.Equal(t, address, c.Endpoint())
		assert.Equal(t, "9.2.11", c.Version().Version)
	}
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
	require.ErrorIs(t, c.Call(ctx, http.MethodDelete, "/cluster/mapping/pci/gpu", nil, nil), context.DeadlineExceeded)
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

func TestAZeroClientIsAnError(t *testing.T) {
	for _, c := range []*api.Client{nil, {}} {
		require.EqualError(t, c.Get(t.Context(), "/version", nil, nil), "proxmox: this Client was not made by Dial")
		require.EqualError(t, c.Call(t.Context(), http.MethodPost, "/pools", nil, nil), "proxmox: this Client was not made by Dial")
		_, err := api.GetShared[any](t.Context(), c, "/version", nil)
		require.EqualError(t, err, "proxmox: this Client was not made by Dial")
	}
}
