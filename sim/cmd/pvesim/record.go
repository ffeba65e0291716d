package main

import (
	"context"
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net/http"
	"os"
	"strings"

	"github.com/cps-gpu/homelab/sim/record"
)

// tokenVariable holds the token's secret: in a flag every user of the machine
// could read it.
const tokenVariable = "PROXMOX_TOKEN_SECRET"

// recording has the flags of record.
type recording struct {
	endpoint, token, fingerprint, ca string
	insecure, anonymous, texts       bool
}

// record prints the model of a real host.
func (p *program) record(ctx context.Context, args []string) error {
	var o recording
	f := p.flags("record", "usage: "+tokenVariable+"=… pvesim record -endpoint https://pve1:8006 -token me@pve!look -fingerprint … > site.yaml\n\n"+
		"Reads a Proxmox VE over its API, changes nothing, and prints it as a model without secrets.\nA token of a user with PVEAuditor on / is enough.")
	f.StringVar(&o.endpoint, "endpoint", "", "the API, https://pve1:8006")
	f.StringVar(&o.token, "token", "", "token ID, name@realm!token; its secret is read from "+tokenVariable)
	f.StringVar(&o.fingerprint, "fingerprint", "", "SHA-256 of the certificate, as pvenode cert info shows it")
	f.StringVar(&o.ca, "ca", "", "file of the certificate authority, as /etc/pve/pve-root-ca.pem")
	f.BoolVar(&o.insecure, "insecure", false, "do not check the certificate")
	f.BoolVar(&o.anonymous, "anonymous", false, "replace names, addresses and serial numbers")
	f.BoolVar(&o.texts, "descriptions", false, "keep descriptions and comments, whatever is in them")
	if err := parse(f, args, 0); err != nil {
		return err
	}
	value := p.getenv(tokenVariable)
	switch {
	case o.endpoint == "" || o.token == "":
		return usageError{errors.New("record needs -endpoint https://… and -token name@realm!token")}
	case value == "":
		return usageError{fmt.Errorf("the token's secret is to be in the environment: export %s", tokenVariable)}
	}
	client, err := o.client()
	if err != nil {
		return err
	}
	m, missing, err := record.Read(ctx, record.Options{Endpoint: o.endpoint, TokenID: o.token, TokenSecret: value,
		Client: client, Anonymous: o.anonymous, Descriptions: o.texts})
	if err != nil {
		return err
	}
	for _, what := range missing {
		p.say("left out: %s", what)
	}
	text, err := m.YAML()
	if err != nil {
		return err
	}
	if _, err := p.out.Write(text); err != nil {
		return err
	}
	p.say("Recorded: %s. NUMA nodes of devices and the cards' product names are not in the API: add numaNode and product where they matter.", summary(m))
	return nil
}

// client checks the certificate according to the flags.
func (o recording) client() (*http.Client, error) {
	conf := &tls.Config{MinVersion: tls.VersionTLS12, InsecureSkipVerify: o.insecure}
	switch {
	case o.fingerprint != "":
		want := strings.ToUpper(strings.ReplaceAll(o.fingerprint, ":", ""))
		conf.InsecureSkipVerify = true // the fingerprint identifies it
		conf.VerifyConnection = func(c tls.ConnectionState) error {
			if got := fmt.Sprintf("%X", sha256.Sum256(c.PeerCertificates[0].Raw)); got != want {
				return fmt.Errorf("the certificate's fingerprint is %s and not %s", got, want)
			}
			return nil
		}
	case o.ca != "":
		data, err := os.ReadFile(o.ca)
		if err != nil {
			return nil, err
		}
		conf.RootCAs = x509.NewCertPool()
		if !conf.RootCAs.AppendCertsFromPEM(data) {
			return nil, fmt.Errorf("%s: no certificate in it", o.ca)
		}
	}
	transport := http.DefaultTransport.(*http.Transport).Clone()
	transport.TLSClientConfig = conf
	return &http.Client{
		Transport: transport,
		// A redirect would receive the token.
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}, nil
}
