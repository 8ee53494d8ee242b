package annotation

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
)

// value walks through the JSON of an annotation and knows where in the text it is, which encoding/json tells of syntax only.
type value struct {
	key, text, remedy string
	decoder           *json.Decoder
}

// readJSON begins to read an annotation that is valid JSON.
func readJSON(key, text, remedy string) (*value, error) {
	v := &value{key, text, remedy, json.NewDecoder(strings.NewReader(text))}
	if strings.HasPrefix(text, "\ufeff") {
		// Nobody sees it, and json's own words are of its first byte.
		return nil, v.wrong(1, "begins with a byte order mark (U+FEFF), which is no JSON")
	}
	// Numbers are kept as they are written.
	v.decoder.UseNumber()
	var syntax *json.SyntaxError
	if err := json.Unmarshal([]byte(text), new(any)); !errors.As(err, &syntax) {
		return v, nil
	}
	if strings.HasPrefix(syntax.Error(), "unexpected end") {
		return nil, v.wrong(len(text)+1, "the JSON ends too early")
	}
	return nil, v.wrong(int(syntax.Offset), "%v", syntax)
}

// next is the position of what comes next, counted in bytes from 1.
func (v *value) next() int {
	rest := v.text[v.decoder.InputOffset():]
	return len(v.text) - len(strings.TrimLeft(rest, " \t\r\n,:")) + 1
}

func (v *value) wrong(at int, format string, arguments ...any) error {
	return &Error{Key: v.key, Position: at, Reason: fmt.Sprintf(format, arguments...), Remedy: v.remedy}
}

// object reads one, whose fields `each` reads; `where` is what comes before a field's name when it is told of, and at where the name stands.
func (v *value) object(where string, each func(name string, at int) error) error {
	begins := v.next()
	// (That it is JSON is known: Token has no errors here.)
	if open, _ := v.decoder.Token(); open != json.Delim('{') {
		return v.wrong(begins, "%sexpected an object, not %s", where, kindOf(open))
	}
	seen := map[string]bool{}
	for v.decoder.More() {
		at := v.next()
		token, _ := v.decoder.Token()
		name, _ := token.(string)
		if seen[name] {
			return v.wrong(at, "%s%q is there twice", where, name)
		}
		seen[name] = true
		if err := each(name, at); err != nil {
			return err
		}
	}
	_, _ = v.decoder.Token()
	return nil
}

// array reads one, whose elements `each` is given.
func (v *value) array(each func(element json.Token, at int) error) error {
	begins := v.next()
	if open, _ := v.decoder.Token(); open != json.Delim('[') {
		return v.wrong(begins, "expected an array, not %s", kindOf(open))
	}
	for v.decoder.More() {
		at := v.next()
		element, _ := v.decoder.Token()
		if err := each(element, at); err != nil {
			return err
		}
	}
	_, _ = v.decoder.Token()
	return nil
}

// kindOf is what a value is called that begins with this.
func kindOf(token json.Token) string {
	switch token := token.(type) {
	case nil:
		return "null"
	case bool:
		return "true or false"
	case string:
		return "a string"
	case json.Number:
		return "a number (" + string(token) + ")"
	default:
		if token == json.Delim('[') {
			return "an array"
		}
		return "an object"
	}
}
