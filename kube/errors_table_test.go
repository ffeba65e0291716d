package kube

import (
	"context"
	"crypto/x509"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// TestErrorsAreSorted: by code, and where a code says too little, by the API server's words.
func TestErrorsAreSorted(t *testing.T) {
	kinds := []error{ErrNotFound, ErrConflict, ErrInvalid, ErrForbidden, ErrCannotGrow, ErrUnauthorized, ErrUnreachable, ErrCertificate, ErrWebhook}
	said := func(code int32, message string) error {
		return &apierrors.StatusError{ErrStatus: metav1.Status{Code: code, Message: message}}
	}
	for _, c := range []struct {
		err  error
		kind error
		want string
	}{
		{said(404, "no"), ErrNotFound, "do: not found: no"},
		{said(404, `pods "a" not found`), ErrNotFound, `do: pods "a" not found`},
		{said(409, "no"), ErrConflict, "do: changed by somebody else in the meantime: no"},
		{said(403, "no"), ErrForbidden, "do: not allowed: no"},
		{said(403, "the storageclass must support resize"), ErrCannotGrow, "do: the claim's storage class cannot grow volumes: the storageclass must support resize: " +
			"write the size that it has, or move its data to a claim of a class with allowVolumeExpansion"},
		{said(403, "it is being terminated"), ErrConflict, "do: changed by somebody else in the meantime: it is being terminated: wait until the old namespace is gone"},
		{said(401, "is being terminated"), ErrUnauthorized, "do: not known to the API server: is being terminated: the kubeconfig's credentials have expired or are for another cluster: read it again from a server"},
		{said(500, "failed calling webhook x"), ErrWebhook, "do: a webhook of the cluster does not answer: failed calling webhook x"},
		{said(400, "failed calling webhook x"), ErrInvalid, "do: refused as invalid: failed calling webhook x"},
		{said(422, "field is immutable"), ErrInvalid, "do: refused as invalid: field is immutable: delete it and apply it again"},
		{said(400, "field is immutable"), ErrInvalid, "do: refused as invalid: field is immutable"},
		{said(418, "field is immutable"), nil, "do: field is immutable"},
		{said(422, "no"), ErrInvalid, "do: refused as invalid: no"},
		{said(400, "no"), ErrInvalid, "do: refused as invalid: no"},
		{said(503, "no"), ErrUnreachable, "do: the API server does not answer: no"},
		{said(502, "no"), ErrUnreachable, "do: the API server does not answer: no"},
		{said(504, "no"), ErrUnreachable, "do: the API server does not answer: no"},
		{said(429, "no"), ErrUnreachable, "do: the API server does not answer: no"},
		{said(500, "etcdserver: leader changed"), ErrUnreachable, "do: the API server does not answer: etcdserver: leader changed"},
		{said(405, "etcdserver: leader changed"), nil, "do: etcdserver: leader changed"},
		{said(500, "no"), nil, "do: no"},
		{said(405, "no"), nil, "do: no"},
		{fmt.Errorf("get: %w", context.Canceled), nil, "do: get: context canceled"},
		{context.DeadlineExceeded, ErrUnreachable, "do: the API server does not answer: context deadline exceeded"},
		{fmt.Errorf("tls: %w", x509.UnknownAuthorityError{}), ErrCertificate, "do: the API server's certificate is not trusted: tls: x509: certificate signed by unknown authority: the kubeconfig is for another cluster, or for one that was recreated: read it again from a server"},
		{fmt.Errorf("tls: %w", x509.HostnameError{Certificate: &x509.Certificate{}, Host: "h"}), ErrCertificate, "add it to tls-san of every server"},
		{errors.New("refused"), ErrUnreachable, "do: the API server does not answer: refused"},
	} {
		err := explain("do", c.err)
		if strings.HasPrefix(c.want, "do: ") {
			require.EqualError(t, err, c.want)
		} else {
			require.ErrorContains(t, err, c.want)
		}
		require.ErrorIs(t, err, c.err)
		for _, kind := range kinds {
			assert.Equal(t, errors.Is(c.kind, kind), errors.Is(err, kind), "%v: %v", err, kind)
		}
		var e *Error
		require.ErrorAs(t, err, &e)
		assert.Equal(t, errors.Is(c.kind, ErrUnreachable) || errors.Is(c.kind, ErrConflict), e.Transient(), "%v", err)
		assert.Equal(t, errors.Is(c.kind, ErrForbidden) || errors.Is(c.kind, ErrCannotGrow), e.Permanent(), "%v", err)
		assert.Len(t, e.Unwrap(), map[bool]int{true: 1, false: 2}[c.kind == nil])
	}
	assert.NoError(t, explain("do", nil))
}

// TestReasonsAreCut: up to four hundred bytes are shown whole; of more, the beginning and the end,
// or only what stands behind the object that is repeated.
func TestReasonsAreCut(t *testing.T) {
	text := func(n int) string { return strings.Repeat("0123456789", n/10+1)[:n] }
	err := &apierrors.StatusError{}
	say := func(message string, causes ...metav1.StatusCause) string {
		err.ErrStatus = metav1.Status{Message: message, Details: &metav1.StatusDetails{Causes: causes}}
		return reason(fmt.Errorf("within: %w", err))
	}
	cause := metav1.StatusCause{Field: "spec", Message: "bad"}
	assert.Equal(t, text(400), say(text(400), cause))
	assert.Equal(t, "spec: bad; worse", say(text(401), cause, metav1.StatusCause{Message: "worse"}))
	assert.Equal(t, text(60)+"…"+text(401)[201:], say(text(401)))
	err.ErrStatus = metav1.Status{Message: text(400)}
	assert.Equal(t, text(400), reason(err))
	err.ErrStatus.Message = text(401)
	assert.Equal(t, text(60)+"…"+text(401)[201:], reason(err))
	assert.Equal(t, "spec: "+text(60)+"…"+text(500)[300:], say(text(401), metav1.StatusCause{Field: "spec", Message: text(500)}))

	behind := func(n int) string { return "Invalid value: {" + text(400) + "}: " + text(n) }
	assert.Equal(t, "Invalid value: …: "+text(100), shorten(behind(100)))
	assert.Equal(t, "Invalid value: …: "+text(196), shorten(behind(196)))
	assert.Equal(t, "Invalid value: {"+text(44)+"…}: "+text(197), shorten(behind(197)), "it would be cut itself")
	assert.Equal(t, "Invalid value: {"+text(44)+"…"+text(300)[100:], shorten(behind(300)))
	assert.Equal(t, text(60)+"…: "+text(100), shorten(text(300)+"{}: "+text(100)), "its beginning is long, too")
	assert.Equal(t, strings.Repeat("é", 30)+"…"+strings.Repeat("é", 100), shorten(strings.Repeat("é", 300)))
	assert.Equal(t, "x"+strings.Repeat("é", 29)+"…"+strings.Repeat("é", 99)+"x", shorten("x"+strings.Repeat("é", 300)+"x"))
}
