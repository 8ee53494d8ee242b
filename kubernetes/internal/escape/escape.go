// Package escape prints text that comes from outside: from peers, pods, operators and API objects. Printed as it is, such text could move the cursor of
// a terminal, begin a line of its own, or show other words than it has. crates/api/src/escape.rs does the same in Rust.
package escape

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"strings"
	"unicode"
	"unicode/utf16"
	"unicode/utf8"
)

// Text has control characters, marks of direction, what isn't seen and bytes that aren't UTF-8 as escapes: \x1b, \n, \u{202e}, \xff. What is escaped
// already stays as it is.
func Text(text string) string { return escaped(text, false) }

// Lines is Text for several lines, which stay such.
func Lines(text string) string { return escaped(text, true) }

// Error is what an error says: errors that were joined in a line each.
func Error(err error) string {
	joined, are := err.(interface{ Unwrap() []error })
	if !are {
		return Text(err.Error())
	}
	var raw, lines []string
	for _, one := range joined.Unwrap() {
		raw, lines = append(raw, one.Error()), append(lines, Error(one))
	}
	if err.Error() != strings.Join(raw, "\n") {
		return Text(err.Error())
	}
	return strings.Join(lines, "\n")
}

// Fprintf is that of fmt, which escapes the texts among its arguments.
func Fprintf(to io.Writer, format string, arguments ...any) (int, error) {
	return fmt.Fprintf(to, format, all(arguments)...)
}

// Fprintln is that of fmt, which escapes the texts among its arguments.
func Fprintln(to io.Writer, arguments ...any) (int, error) {
	return fmt.Fprintln(to, all(arguments)...)
}

// JSON writes a value as indented JSON of plain characters only: the same document as that of encoding/json.
func JSON(to io.Writer, value any) error {
	var document bytes.Buffer
	encoder := json.NewEncoder(&document)
	encoder.SetIndent("", "  ")
	encoder.SetEscapeHTML(false)
	if err := encoder.Encode(value); err != nil {
		return err
	}
	_, err := to.Write(PlainJSON(document.Bytes()))
	return err
}

// PlainJSON is the same document in plain characters.
func PlainJSON(document []byte) []byte {
	plain := make([]byte, 0, len(document))
	for _, character := range string(document) {
		// (Line breaks stand between values; within them JSON has no raw control character.)
		if character == '\n' || isPlain(character) {
			plain = utf8.AppendRune(plain, character)
			continue
		}
		if character > 0xffff {
			first, second := utf16.EncodeRune(character)
			plain = fmt.Appendf(plain, `\u%04x\u%04x`, first, second)
			continue
		}
		plain = fmt.Appendf(plain, `\u%04x`, character)
	}
	return plain
}

// all are arguments whose texts are escaped.
func all(arguments []any) []any {
	escaped := make([]any, len(arguments))
	for i, one := range arguments {
		switch one := one.(type) {
		case string:
			escaped[i] = Text(one)
		case error:
			escaped[i] = Error(one)
		case fmt.Stringer:
			escaped[i] = Text(one.String())
		case nil, bool, int, int8, int16, int32, int64, uint, uint8, uint16, uint32, uint64, float32, float64, []byte:
			escaped[i] = one
		default:
			escaped[i] = Text(fmt.Sprint(one))
		}
	}
	return escaped
}

func escaped(text string, several bool) string {
	var to strings.Builder
	for i, character := range text {
		size := utf8.RuneLen(character)
		switch {
		case character == utf8.RuneError && !strings.HasPrefix(text[i:], "\ufffd"):
			fmt.Fprintf(&to, `\x%02x`, text[i])
		case isPlain(character), several && character == '\n':
			to.WriteString(text[i : i+size])
		case character == '\n':
			to.WriteString(`\n`)
		case character == '\r':
			to.WriteString(`\r`)
		case character == '\t':
			to.WriteString(`\t`)
		case character < utf8.RuneSelf:
			fmt.Fprintf(&to, `\x%02x`, character)
		default:
			fmt.Fprintf(&to, `\u{%x}`, character)
		}
	}
	return to.String()
}

// isPlain tells whether a character shows as itself, and nothing else by it.
func isPlain(character rune) bool {
	return character == ' ' || unicode.IsGraphic(character) && !unicode.IsSpace(character) && !unicode.Is(unicode.M, character)
}
