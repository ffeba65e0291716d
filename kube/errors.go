package kube

import (
	"context"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/cps-gpu/homelab/internal/limit"
)

// Errors that a caller may act on; compare with errors.Is. The API server's own error, with
// its message and code, is wrapped too.
var (
	ErrNotFound     = errors.New("not found")
	ErrConflict     = errors.New("changed by somebody else in the meantime")
	ErrInvalid      = errors.New("refused as invalid")
	ErrForbidden    = errors.New("not allowed")
	ErrCannotGrow   = errors.New("the claim's storage class cannot grow volumes")
	ErrUnauthorized = errors.New("not known to the API server")
	ErrUnreachable  = errors.New("the API server does not answer")
	ErrCertificate  = errors.New("the API server's certificate is not trusted")
	ErrWebhook      = errors.New("a webhook of the cluster does not answer") // soon after its pods are ready, it may not yet
)

// Error is a call of the API that failed.
type Error struct {
	Doing string // e.g. "apply daemonset kube-system/x"
	Kind  error  // one of the errors above, nil when none fits
	Hint  string // what to do, where we know
	Err   error  // what came back
}

// Error returns what was done, what came back, and what to do.
func (e *Error) Error() string {
	said := reason(e.Err)
	s := fmt.Sprintf("%s: %s", e.Doing, said)
	if e.Kind != nil && !strings.Contains(said, e.Kind.Error()) {
		s = fmt.Sprintf("%s: %v: %s", e.Doing, e.Kind, said)
	}
	if e.Hint != "" {
		s += ": " + e.Hint
	}
	return s
}

// reason is an error's text at a readable length: the API server repeats whole objects before
// it says what is wrong with them.
func reason(err error) string {
	var status apierrors.APIStatus
	if !errors.As(err, &status) {
		return err.Error()
	}
	s := status.Status()
	if s.Details == nil || len(s.Message) <= maxReason {
		return shorten(s.Message)
	}
	causes := make([]string, len(s.Details.Causes))
	for i, c := range s.Details.Causes {
		causes[i] = strings.TrimPrefix(c.Field+": "+shorten(c.Message), ": ")
	}
	if len(causes) == 0 {
		return shorten(s.Message)
	}
	return strings.Join(causes, "; ")
}

// maxReason is the longest reason that is shown whole, in bytes.
const maxReason = 400

// shorten removes the middle of a long text: the problem is named at its end.
func shorten(s string) string {
	const head, tail = 60, 200
	if len(s) <= maxReason {
		return s
	}
	if i := strings.LastIndex(s, "}: "); i > len(s)-tail {
		return s[:min(head, strings.IndexByte(s, '{'))] + "…" + s[i+1:]
	}
	return strings.ToValidUTF8(s[:head], "") + "…" + strings.ToValidUTF8(s[len(s)-tail:], "")
}

// Unwrap gives errors.Is and errors.As both the kind and the cause.
func (e *Error) Unwrap() []error {
	if e.Kind == nil {
		return []error{e.Err}
	}
	return []error{e.Kind, e.Err}
}

// Transient reports whether the same call may succeed later: the API server or its backend does
// not answer now, or another client was quicker.
func (e *Error) Transient() bool {
	return errors.Is(e.Kind, ErrUnreachable) || errors.Is(e.Kind, ErrConflict)
}

// Permanent reports whether waiting does not help: these credentials may not do that, or this class cannot.
func (e *Error) Permanent() bool {
	return errors.Is(e.Kind, ErrForbidden) || errors.Is(e.Kind, ErrCannotGrow)
}

// explain classifies an error. Everything that this package knows about failures of Kubernetes
// is here.
func explain(doing string, err error) error {
	if err == nil {
		return nil
	}
	e := &Error{Doing: doing, Err: err}
	var status apierrors.APIStatus
	var authority x509.UnknownAuthorityError
	var host x509.HostnameError
	var large *limit.Error
	switch {
	case errors.As(err, &status):
		e.Hint, e.Kind = explainStatus(status.Status())
	case errors.Is(err, context.Canceled), errors.As(err, &large):
	case errors.As(err, &authority):
		e.Kind, e.Hint = ErrCertificate, "the kubeconfig is for another cluster, or for one that was recreated: read it again from a server"
	case errors.As(err, &host):
		e.Kind, e.Hint = ErrCertificate, "the address is not among the server's names: add it to tls-san of every server"
	default:
		e.Kind = ErrUnreachable
	}
	return e
}

func explainStatus(s metav1.Status) (hint string, kind error) {
	switch {
	case s.Code == http.StatusNotFound:
		return "", ErrNotFound
	case s.Code == http.StatusConflict:
		return "", ErrConflict
	case s.Code == http.StatusForbidden && strings.Contains(s.Message, "is being terminated"):
		return "wait until the old namespace is gone", ErrConflict
	case s.Code == http.StatusForbidden && strings.Contains(s.Message, "must support resize"): // plugin/pkg/admission/storage/persistentvolume/resize
		return "write the size that it has, or move its data to a claim of a class with allowVolumeExpansion", ErrCannotGrow
	case s.Code == http.StatusForbidden:
		return "", ErrForbidden
	case s.Code == http.StatusUnauthorized:
		return "the kubeconfig's credentials have expired or are for another cluster: read it again from a server", ErrUnauthorized
	case s.Code == http.StatusInternalServerError && strings.Contains(s.Message, "failed calling webhook"):
		return "", ErrWebhook // admission/plugin/webhook/errors of the API server
	case immutable(s):
		return "delete it and apply it again", ErrInvalid
	case s.Code == http.StatusUnprocessableEntity || s.Code == http.StatusBadRequest:
		return "", ErrInvalid
	case s.Code == http.StatusServiceUnavailable || s.Code == http.StatusBadGateway || s.Code == http.StatusGatewayTimeout ||
		s.Code == http.StatusTooManyRequests:
		return "", ErrUnreachable
	case s.Code == http.StatusInternalServerError && strings.Contains(s.Message, "etcdserver: "):
		return "", ErrUnreachable // a leader is elected, or a disk is slow: go.etcd.io/etcd/server, etcdserver/errors
	}
	return "", nil
}

func immutable(s metav1.Status) bool {
	return s.Code == http.StatusUnprocessableEntity && strings.Contains(s.Message, "immutable")
}

// statusError turns an unsuccessful answer into an error. An answer from something in between,
// such as a load balancer, is not a Status.
func statusError(resp *http.Response, body []byte) error {
	var s metav1.Status
	if err := json.Unmarshal(body, &s); err == nil && s.Kind == "Status" && s.Code != 0 {
		return &apierrors.StatusError{ErrStatus: s}
	}
	text := strings.TrimSpace(string(body[:min(len(body), 200)]))
	if to, err := resp.Location(); err == nil {
		text = "leads to " + to.Scheme + "://" + to.Host + ", which is not followed because it would receive the credentials"
	}
	return &apierrors.StatusError{ErrStatus: metav1.Status{
		Status: metav1.StatusFailure, Code: int32(resp.StatusCode), //nolint:gosec // a status code
		Message: strings.TrimSpace(fmt.Sprintf("HTTP %s %s", resp.Status, text)),
	}}
}

// NoKindError is a kind that the API server does not serve: its
// CustomResourceDefinition is not there, or not yet established.
type NoKindError struct{ APIVersion, Kind string }

// Error names the kind.
func (e *NoKindError) Error() string {
	return fmt.Sprintf("the API server has no kind %s of %s: its CustomResourceDefinition is missing or not established yet", e.Kind, e.APIVersion)
}
