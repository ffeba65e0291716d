package kube

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
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
