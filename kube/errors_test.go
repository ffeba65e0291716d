package kube

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/cps-gpu/homelab/converge"
)

// TestReasonIsReadable has the API server repeat a whole object, as it does.
func TestReasonIsReadable(t *testing.T) {
	object := "Invalid value: {" + strings.Repeat(`"a":{},`, 200) + "}: field is immutable"
	err := &apierrors.StatusError{ErrStatus: metav1.Status{Code: 422, Message: `Job.batch "x" is invalid: spec.template: ` + object,
		Details: &metav1.StatusDetails{Causes: []metav1.StatusCause{{Field: "spec.template", Message: object}}}}}
	assert.EqualError(t, explain("apply job default/x", err),
		"apply job default/x: refused as invalid: spec.template: Invalid value: …: field is immutable: delete it and apply it again")
	err.ErrStatus.Message, err.ErrStatus.Details = strings.Repeat("é", 300), nil
	assert.Less(t, len(reason(err)), 300)
	err.ErrStatus.Message = "short"
	assert.Equal(t, "short", reason(err))
}

// A right that is missing does not come by waiting; a namespace that goes is gone soon.
func TestMissingRightsAreForGood(t *testing.T) {
	status := func(code int32, message string) error {
		return explain("list the nodes", &apierrors.StatusError{ErrStatus: metav1.Status{Code: code, Message: message}})
	}
	assert.True(t, converge.IsPermanent(status(403, `nodes is forbidden: User "x" cannot list resource "nodes"`)))
	assert.False(t, converge.IsPermanent(status(403, `pods "a" is forbidden: unable to create new content in namespace b because it is being terminated`)))
	assert.False(t, converge.IsPermanent(status(404, "gone")))
	assert.True(t, converge.IsTransient(status(503, "apiserver not ready")))
	assert.True(t, converge.IsTransient(status(409, "the object has been modified; please apply your changes to the latest version and try again")))
	assert.True(t, converge.IsTransient(status(403, `pods "a" is forbidden: unable to create new content in namespace b because it is being terminated`)))
}
