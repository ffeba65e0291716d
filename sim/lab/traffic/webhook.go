package traffic

import (
	"encoding/json"
	"io"
	"net/http"
	"time"

	admissionv1 "k8s.io/api/admission/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
)

// maxReview is the most that a webhook reads: the API server's limit of a request.
const maxReview = 3 << 20

// simulated answers for pods whose program the lab does not simulate. It allows every
// admission review, a conversion changes only the version, and all other requests are told
// that nothing runs here.
func simulated(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(io.LimitReader(r.Body, maxReview))
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	var kind metav1.TypeMeta
	_ = json.Unmarshal(body, &kind)
	switch kind.Kind {
	case "AdmissionReview":
		admit(w, body)
	case "ConversionReview":
		convert(w, body)
	default:
		w.Header().Set("Date", time.Now().UTC().Format(http.TimeFormat))
		_, _ = io.WriteString(w, "(simulated: this container runs no program)\n")
	}
}

func admit(w http.ResponseWriter, body []byte) {
	var review admissionv1.AdmissionReview
	if err := json.Unmarshal(body, &review); err != nil || review.Request == nil {
		http.Error(w, "not an admission review", http.StatusBadRequest)
		return
	}
	review.Response = &admissionv1.AdmissionResponse{UID: review.Request.UID, Allowed: true}
	review.Request = nil
	Reply(w, review)
}

func convert(w http.ResponseWriter, body []byte) {
	var review apiextensionsv1.ConversionReview
	if err := json.Unmarshal(body, &review); err != nil || review.Request == nil {
		http.Error(w, "not a conversion review", http.StatusBadRequest)
		return
	}
	response := &apiextensionsv1.ConversionResponse{UID: review.Request.UID, Result: metav1.Status{Status: metav1.StatusSuccess}}
	for _, raw := range review.Request.Objects {
		var obj unstructured.Unstructured
		if err := obj.UnmarshalJSON(raw.Raw); err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
		obj.SetAPIVersion(review.Request.DesiredAPIVersion)
		response.ConvertedObjects = append(response.ConvertedObjects, runtime.RawExtension{Object: &obj})
	}
	review.Request, review.Response = nil, response
	Reply(w, review)
}

func Reply(w http.ResponseWriter, v any) {
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(v)
}
