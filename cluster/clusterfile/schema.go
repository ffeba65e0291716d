package clusterfile

import _ "embed"

// schema is generated from the types in package decode and cluster/spec: go test ./cluster/clusterfile -run TestSchema -update.
//
//go:embed schema.json
var schema []byte

// Schema returns the JSON Schema of cluster.yaml, for editors and other checkers. It has keys,
// types and choices; [Load] checks what depends on several values.
func Schema() []byte { return append([]byte(nil), schema...) }
