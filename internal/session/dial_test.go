package session

import (
	"errors"
	"fmt"
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/cps-gpu/homelab/cluster/spec"
	"github.com/cps-gpu/homelab/proxmox"
)

// An error that a value of the file leads to says where the value is.
func TestRefusedValuesHaveAPlace(t *testing.T) {
	s := &Session{Spec: &spec.Spec{Places: map[string]string{"proxmox.endpoint": "cluster.yaml:3:13", "proxmox.token": "cluster.yaml:4:10", "proxmox.fingerprint": "cluster.yaml:6:16"}}}
	for want, err := range map[string]error{
		"cluster.yaml:3:13: no route":        errors.New("no route"),
		"cluster.yaml:4:10: 401: x":          fmt.Errorf("401: %w", errorAs("x", proxmox.ErrUnauthorized)),
		"cluster.yaml:6:16: proxmox: the ce": certificateError{want: "AA"},
		"cluster.yaml:3:13: proxmox: the ce": certificateError{},
	} {
		got := s.errorAt(keyOfError(err), err)
		assert.ErrorIs(t, got, err)
		assert.Equal(t, want, got.Error()[:len(want)])
	}
	assert.NoError(t, s.errorAt("proxmox.token", nil))
	assert.EqualError(t, s.errorAt("proxmox.ca", errors.New("x")), "x", "it is not in the file")
}

// errorAs is an error with a text of its own that wraps another.
func errorAs(text string, err error) error { return textError{text, err} }

type textError struct {
	text string
	err  error
}

func (e textError) Error() string { return e.text }
func (e textError) Unwrap() error { return e.err }

// certificateError is a [proxmox.CertificateError].
type certificateError struct{ want string }

func (e certificateError) Error() string                      { return "proxmox: the certificate" }
func (e certificateError) Fingerprints() (shown, want string) { return "BB", e.want }
