// Package python finds what Python's compiler refuses in a text, without Python.
//
// It follows the grammar of Python 3.12 (docs.python.org, "Full Grammar specification") and
// accepts what later versions accept. It reports nothing of which it is not certain.
package python
