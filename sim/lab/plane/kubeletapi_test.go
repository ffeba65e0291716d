package plane

import (
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/stretchr/testify/assert"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes/scheme"
)

// TestWhatIsNotServedSaysSo: kubectl shows an answer's text only if it does not decode as a Status, and YAML with a
// colon does, into an empty one.
func TestWhatIsNotServedSaysSo(t *testing.T) {
	w := httptest.NewRecorder()
	(&kubelet{}).api().ServeHTTP(w, httptest.NewRequestWithContext(t.Context(), http.MethodPost, "/exec/default/mine/c", nil))
	assert.Equal(t, http.StatusNotImplemented, w.Code)
	_, _, err := scheme.Codecs.UniversalDecoder().Decode(w.Body.Bytes(), nil, &metav1.Status{})
	assert.Error(t, err, w.Body.String())
}
