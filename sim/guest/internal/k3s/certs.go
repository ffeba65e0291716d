package k3s

import (
	"crypto/ed25519"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"fmt"
	"math/big"
	"path"
	"strings"
	"time"

	"github.com/cps-gpu/homelab/sim/guest/internal/disk"
	"github.com/cps-gpu/homelab/sim/guest/internal/machine"
)

// How long leaves are valid, and when a start renews them (pkg/daemons/config/types.go:
// CertificateRenewDays).
const (
	leafDays  = 365
	renewDays = 120
)

// leaf is a certificate of K3s: its file, its subject, and which authority signs it
// (pkg/daemons/control/deps/deps.go, pkg/util/services).
type leaf struct{ file, subject, issuer, usage string }

func leaves(role string) []leaf {
	agent := []leaf{
		{dir + "/agent/client-kubelet.crt", "system:node:", "k3s-client-ca", "ClientAuth"},
		{dir + "/agent/client-kube-proxy.crt", "system:kube-proxy", "k3s-client-ca", "ClientAuth"},
		{dir + "/agent/client-k3s-controller.crt", "system:k3s-controller", "k3s-client-ca", "ClientAuth"},
		{dir + "/agent/serving-kubelet.crt", "", "k3s-server-ca", "ServerAuth"},
	}
	if role != "server" {
		return agent
	}
	return append(agent,
		leaf{serverDir + "/tls/client-admin.crt", "system:admin", "k3s-client-ca", "ClientAuth"},
		leaf{serverDir + "/tls/client-controller.crt", "system:kube-controller-manager", "k3s-client-ca", "ClientAuth"},
		leaf{serverDir + "/tls/client-scheduler.crt", "system:kube-scheduler", "k3s-client-ca", "ClientAuth"},
		leaf{serverDir + "/tls/client-supervisor.crt", "system:k3s-supervisor", "k3s-client-ca", "ClientAuth"},
		leaf{serverDir + "/tls/client-kube-apiserver.crt", "system:apiserver", "k3s-client-ca", "ClientAuth"},
		leaf{serverDir + "/tls/serving-kube-apiserver.crt", "kube-apiserver", "k3s-server-ca", "ServerAuth"},
		leaf{serverDir + "/tls/client-k3s-cloud-controller.crt", "k3s-cloud-controller-manager", "k3s-client-ca", "ClientAuth"},
		leaf{serverDir + "/tls/kube-scheduler/kube-scheduler.crt", "kube-scheduler", "k3s-server-ca", "ServerAuth"},
		leaf{serverDir + "/tls/kube-controller-manager/kube-controller-manager.crt", "kube-controller-manager", "k3s-server-ca", "ServerAuth"},
		leaf{serverDir + "/tls/client-auth-proxy.crt", "system:auth-proxy", "k3s-request-header-ca", "ClientAuth"},
		leaf{serverDir + "/tls/etcd/client.crt", "etcd-client", "etcd-server-ca", "ClientAuth"},
		leaf{serverDir + "/tls/etcd/server-client.crt", "etcd-server", "etcd-server-ca", "ServerAuth,ClientAuth"},
		leaf{serverDir + "/tls/etcd/peer-server-client.crt", "etcd-peer", "etcd-peer-ca", "ServerAuth,ClientAuth"},
	)
}

// renew makes the certificates that are missing or end soon. Those of an agent, which every
// server also is, come from a server at each start (pkg/agent/config/config.go, get).
func (n *node) renew(v *disk.View) {
	_, key, _ := ed25519.GenerateKey(rand.Reader) // never fails, see crypto/rand
	for _, l := range leaves(n.role) {
		agents := strings.HasPrefix(l.file, dir+"/agent/")
		if c := certificateIn(v, l.file); !agents && c != nil && time.Until(c.NotAfter) > renewDays*24*time.Hour {
			continue
		}
		subject := l.subject
		if subject == "" || strings.HasSuffix(subject, ":node:") {
			subject += n.name
		}
		text := Certificate(subject, l.issuer, key)
		if l.file == clientCertificate {
			text = n.identity() + text
		}
		v.Save(l.file, text, 0o644)
	}
}

func certificateIn(v *disk.View, file string) *x509.Certificate {
	data, err := v.ReadFile(file)
	if err != nil {
		return nil
	}
	block, _ := pem.Decode(data)
	if block == nil {
		return nil
	}
	c, _ := x509.ParseCertificate(block.Bytes) // nil where it is none
	return c
}

// Certificate makes a certificate of a year, PEM. Nobody verifies it here, so one key stands for all authorities'.
func Certificate(subject, authority string, key ed25519.PrivateKey) string {
	serial, _ := rand.Int(rand.Reader, new(big.Int).Lsh(big.NewInt(1), 100))
	cert := &x509.Certificate{SerialNumber: serial, Subject: pkix.Name{CommonName: subject}, NotBefore: time.Now(), NotAfter: time.Now().AddDate(0, 0, leafDays)}
	issuer := &x509.Certificate{Subject: pkix.Name{CommonName: authority}}
	der, err := x509.CreateCertificate(rand.Reader, cert, issuer, key.Public(), key)
	if err != nil {
		panic(err) // of our own making
	}
	return string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}))
}

// certificates is k3s certificate check and rotate (pkg/cli/cert/cert.go).
func certificates(p *machine.Proc, verb string) int {
	role := "server"
	if _, err := p.FS.Stat(serverDir); err != nil {
		role = "agent"
	}
	say := func(level, format string, args ...any) {
		fmt.Fprintf(p.Stderr, "time=%q level=%s msg=%q\n", time.Now().UTC().Format(time.RFC3339), level, fmt.Sprintf(format, args...))
	}
	switch verb {
	case "check":
		if role == "server" {
			say("info", "Server detected, checking agent and server certificates")
		} else {
			say("info", "Agent detected, checking agent certificates")
		}
		for _, l := range leaves(role) {
			c := certificateIn(p.FS, l.file)
			switch {
			case c == nil:
			case time.Now().After(c.NotAfter):
				say("error", "%s: certificate %s (%s) expired at %s", path.Base(l.file), c.Subject.CommonName, l.usage, c.NotAfter.Format(time.RFC3339))
			case time.Until(c.NotAfter) < renewDays*24*time.Hour:
				say("warning", "%s: certificate %s (%s) will expire within %d days at %s", path.Base(l.file), c.Subject.CommonName, l.usage, renewDays, c.NotAfter.Format(time.RFC3339))
			default:
				say("info", "%s: certificate %s (%s) is ok, expires at %s", path.Base(l.file), c.Subject.CommonName, l.usage, c.NotAfter.Format(time.RFC3339))
			}
		}
	case "rotate":
		backup := map[string]string{"server": serverDir, "agent": dir + "/agent"}[role] + fmt.Sprintf("/tls-%d", time.Now().Unix())
		for _, l := range leaves(role) {
			data, err := p.FS.ReadFile(l.file)
			if err != nil {
				continue
			}
			p.FS.AsRoot().Save(backup+"/"+path.Base(l.file), string(data), 0o600)
			_ = p.FS.Remove(l.file)
		}
		p.Sys.RecordChange("k3s certificates rotated")
		say("info", "Successfully backed up certificates to %s, please restart k3s server or agent to rotate certificates", backup)
	default:
		return p.Fail("certificate %s is not simulated", verb)
	}
	return 0
}
