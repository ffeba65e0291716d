package k3s

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"time"

	"github.com/goccy/go-yaml"

	"github.com/cps-gpu/homelab/sim/guest/internal/plane"
)

// apiGet asks a control plane as its administrator, the way K3s' own controllers do.
func apiGet(ctx context.Context, plane plane.Plane, path string) (int, []byte, error) {
	return apiDo(ctx, plane, http.MethodGet, path, nil)
}

// Get is for other rooms that have a control plane.
func Get(ctx context.Context, plane plane.Plane, path string) (int, []byte, error) {
	return apiGet(ctx, plane, path)
}

// Delete is [Get] with another method.
func Delete(ctx context.Context, plane plane.Plane, path string) (int, []byte, error) {
	return apiDo(ctx, plane, http.MethodDelete, path, nil)
}

// Authority is the certificate authority of a kubeconfig, PEM.
func Authority(config []byte) []byte { return []byte(certificateAuthority(config)) }

// apiDo is apiGet with any method; body is JSON.
func apiDo(ctx context.Context, plane plane.Plane, method, path string, body []byte) (int, []byte, error) {
	admin, err := readKubeconfig(plane.Kubeconfig("https://127.0.0.1:6443"))
	if err != nil {
		return 0, nil, err
	}
	conf, err := admin.tls()
	if err != nil {
		return 0, nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, 30*time.Second)
	defer cancel()
	transport := &http.Transport{DisableKeepAlives: true, DialTLSContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
		raw, err := plane.Dial(ctx)
		if err != nil {
			return nil, err
		}
		conn := tls.Client(raw, conf)
		if err := conn.HandshakeContext(ctx); err != nil {
			return nil, errors.Join(err, raw.Close())
		}
		return abrupt{conn}, nil
	}}
	defer transport.CloseIdleConnections()
	req, err := http.NewRequestWithContext(ctx, method, "https://127.0.0.1:6443"+path, bytes.NewReader(body))
	if err != nil {
		return 0, nil, err
	}
	if body != nil {
		req.Header.Set("Content-Type", "application/json")
	}
	if admin.token != "" {
		req.Header.Set("Authorization", "Bearer "+admin.token)
	}
	resp, err := transport.RoundTrip(req)
	if err != nil {
		return 0, nil, err
	}
	defer func() { _ = resp.Body.Close() }()
	answer, err := io.ReadAll(resp.Body)
	return resp.StatusCode, answer, err
}

// abrupt ends without TLS' last word, which over a pipe without a buffer takes as
// long as nobody listens.
type abrupt struct{ *tls.Conn }

func (c abrupt) Close() error { return c.NetConn().Close() }

// kubeconfig is what K3s' own programs need of one.
type kubeconfig struct {
	ca, cert, key []byte // PEM
	token         string
}

func readKubeconfig(text []byte) (kubeconfig, error) {
	var doc struct {
		Clusters []struct {
			Cluster struct {
				CA string `yaml:"certificate-authority-data"`
			} `yaml:"cluster"`
		} `yaml:"clusters"`
		Users []struct {
			User struct {
				Cert  string `yaml:"client-certificate-data"`
				Key   string `yaml:"client-key-data"`
				Token string `yaml:"token"`
			} `yaml:"user"`
		} `yaml:"users"`
	}
	var k kubeconfig
	if err := yaml.Unmarshal(text, &doc); err != nil {
		return k, err
	}
	var errs [3]error
	if len(doc.Clusters) > 0 {
		k.ca, errs[0] = base64.StdEncoding.DecodeString(doc.Clusters[0].Cluster.CA)
	}
	if len(doc.Users) > 0 {
		u := doc.Users[0].User
		k.token = u.Token
		k.cert, errs[1] = base64.StdEncoding.DecodeString(u.Cert)
		k.key, errs[2] = base64.StdEncoding.DecodeString(u.Key)
	}
	return k, errors.Join(errs[:]...)
}

// tls is the configuration of a client.
func (k kubeconfig) tls() (*tls.Config, error) {
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(k.ca)
	conf := &tls.Config{RootCAs: roots, ServerName: "127.0.0.1", MinVersion: tls.VersionTLS12}
	if len(k.cert) == 0 {
		return conf, nil
	}
	pair, err := tls.X509KeyPair(k.cert, k.key)
	conf.Certificates = []tls.Certificate{pair}
	return conf, err
}

// nodeExists reports whether a Node object is there: K3s frees a node's password
// and its place in etcd when the object is deleted.
func nodeExists(ctx context.Context, plane plane.Plane, name string) (bool, error) {
	code, _, err := apiGet(ctx, plane, "/api/v1/nodes/"+name)
	switch {
	case err != nil:
		return false, err
	case code == http.StatusNotFound:
		return false, nil
	case code == http.StatusOK:
		return true, nil
	}
	return false, fmt.Errorf("GET node %s: status %d", name, code)
}
