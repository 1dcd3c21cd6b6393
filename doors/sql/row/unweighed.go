package row

import (
	"math"
	"strconv"
	"strings"
	"sync"
	"unicode"
	"unicode/utf8"

	"github.com/dolthub/go-mysql-server/sql"
)

// The engine gives each character one weight. The Unicode Collation Algorithm, by which utf8mb4_0900_ai_ci goes, gives some characters several ('ß' is
// 'ss'), ignores others, and takes some pairs together. A text with one of those has no weights here that stand for MySQL's.

// Unweighed returns the first character of a text that a collation weighs otherwise than by one weight of its own. false: there is none. Any goroutine.
func Unweighed(c sql.CollationID, s string) (rune, bool) {
	if c != sql.Collation_utf8mb4_0900_ai_ci {
		return 0, false
	}
	plain := 0
	for plain < len(s) && s[plain] >= ' ' && s[plain] < 0x7f {
		plain++
	}
	if plain == len(s) {
		return 0, false
	}
	u, weight, before := unweighed(), Sorter(c), rune(0)
	for _, r := range s {
		if unicode.Is(u.alone, r) || follows(u.second[before], r) || r >= utf8.RuneSelf && weight(r) == math.MaxInt32 {
			return r, true
		}
		before = r
	}
	return 0, false
}

// tables are the characters that weigh otherwise: alone, and behind others.
type tables struct {
	alone  *unicode.RangeTable
	second map[rune]*unicode.RangeTable
}

var unweighed = sync.OnceValue(func() *tables {
	t := &tables{alone: rangesOf(unweighedAlone), second: map[rune]*unicode.RangeTable{}}
	for _, pair := range unweighedPairs {
		second := rangesOf(pair[1])
		first := rangesOf(pair[0])
		for _, r := range first.R32 {
			for c := r.Lo; c <= r.Hi; c++ {
				t.second[rune(c)] = second
			}
		}
	}
	return t
})

// rangesOf reads ranges such as "e-1f ad".
func rangesOf(s string) *unicode.RangeTable {
	t := &unicode.RangeTable{}
	for one := range strings.FieldsSeq(s) {
		low, high, ok := strings.Cut(one, "-")
		if !ok {
			high = low
		}
		from, _ := strconv.ParseUint(low, 16, 32) // they are constants
		to, _ := strconv.ParseUint(high, 16, 32)
		t.R32 = append(t.R32, unicode.Range32{Lo: uint32(from), Hi: uint32(to), Stride: 1})
	}
	return t
}

// unweighedAlone are the characters with no primary weight or several in the Default Unicode Collation Element Table, and the parts of Hangul
// syllables.
const unweighedAlone = "0-8 e-1f 7f-84 86-9f ad bc-be c6 df e6 132-133 149 152-153 18d 1be 1c4-1cc 1e2-1e3 1f1-1f3 1fc-1fd 238-239 2a3-2ab 300-362 3cf 3d7 " +
	"483-489 587 591-5bd 5bf 5c1-5c2 5c4-5c5 5c7 5ef-5f2 600-605 610-61a 61c 640 64b-65f 670 675-678 6d6-6dd 6df-6e4 6e7-6e8 6ea-6ed " +
	"70f 711 730-74a 7eb-7f3 7fa 7fd 818-819 81c-82d 859-85b 8d3-903 93c 951-954 981-983 9bc 9ce 9fe a01-a03 a3c a70-a71 a81-a83 abc " +
	"afa-aff b01-b03 b3c b55 b82 c00-c04 c81-c83 cbc d00-d03 d4e d54-d56 d7a-d7f d81-d83 e47-e4e ec8-ecd edc-edd f00 f18-f19 f35 f37 " +
	"f39 f3e-f3f f43 f4d f52 f57 f5c f69 f7e-f7f f82-f83 f86-f87 f93 f9d fa2 fa7 fac fb9 fc6 1036-1038 103f 1100-11ff 135d-135f " +
	"16ee-16f0 17b4-17b5 17c6-17d1 17d3 17dd 180a-180e 191d-191e 1939-193b 19de-19df 1a54 1a74-1a7c 1a7f 1ab0-1abe 1b00-1b04 1b34 " +
	"1b6b-1b73 1b80-1b82 1be6 1c37 1cd0-1ce8 1ced 1cf2-1cf4 1cf7-1cf9 1d2d 1d7a 1dc0-1dc9 1dcb-1dd1 1dd4-1dd6 1df5-1df9 1dfb-1dff 1e9a " +
	"1e9e 1efa-1efb 200b-200f 2025-2026 202a-202e 2033-2034 2036-2037 203c 2047-2049 2057 2060-2064 2066-206f 20a8 20d0-20f0 2100-2101 " +
	"2103 2105-2106 2109 2116 2120-2122 213b 214d 2150-215f 2161-2163 2165-2168 216a-216b 2171-2173 2175-2178 217a-217b 2189 222c-222d " +
	"222f-2230 2469-24b5 24eb-24f4 24fe 277f 2789 2793 2a0c 2a74-2a76 2ce4 2cef-2cf1 2d7f 2df5 2e80-2e99 2e9b-2ef3 2f00-2fd5 3006 " +
	"302a-302f 3038-303a 303c 3099-309a 309f 30ff 3192-319f 3200-321e 3220-325f 326e-327e 3280-32cf 32ff-33ff a613-a61f a66f-a672 " +
	"a67c-a67d a6f0-a6f1 a728-a729 a732-a73d a74e-a74f a760-a761 a7f9 a80b a880-a881 a8c5 a8e0-a8f1 a92b-a92d a960-a97c a980-a983 a9b3 " +
	"aabf aac1 ab66-ab67 abec d7b0-d7c6 d7cb-d7fb f900-fa6d fa70-fad9 fb00-fb06 fb13-fb17 fb1e-fb1f fb4f fbdd fbea-fbfb fc00-fc5a " +
	"fc5e-fc8f fc91-fcd8 fcda-fd3b fd50-fd8f fd92-fdc7 fdf0-fdfc fe00-fe0f fe19 fe20-fe30 fe70-fe74 fe76-fe7f fef5-fefc feff ff9e-ff9f " +
	"fff9-fffb 101fd 102e0 10a0d-10a0f 10a38-10a3a 10ae5-10ae6 10d24-10d27 10eab-10eac 10f27 10f46-10f50 10ff6 11000-11002 11080-11082 " +
	"110ba 110bd 110cd 11100-11102 11173 11180-11182 111c9-111cc 111cf 11234 11236-11237 1123e 112df 112e9 11300-11303 1133b-1133c " +
	"11366-1136c 11370-11374 11443-11446 1145e 114bf-114c1 114c3 115bc-115be 115c0 1163d-1163e 11640 116ab-116ac 116b7 11837-11838 " +
	"1183a 1193b-1193c 11943 119de-119df 11a33 11a35-11a39 11a96-11a98 11c3c-11c3e 11cb5-11cb6 11d40-11d43 11d95-11d96 13430-13438 " +
	"16af0-16af4 16b30-16b36 16fe4 16ff0-16ff1 1bc9d-1bc9e 1bca0-1bca3 1d165-1d169 1d16d-1d182 1d185-1d18b 1d1aa-1d1ad 1d242-1d244 " +
	"1da00-1da36 1da3b-1da6c 1da75 1da84 1da9b-1da9f 1daa1-1daaf 1e130-1e136 1e2ec-1e2ef 1e8d0-1e8d6 1e944-1e94a 1f100-1f10a " +
	"1f110-1f12a 1f12d-1f12e 1f14a-1f14f 1f16a-1f16c 1f18b-1f1a4 1f1a6-1f1ac 1f200-1f201 1f210-1f212 1f214-1f23b 1f240-1f248 " +
	"1f250-1f251 2f800-2fa1d e0001 e0020-e007f e0100-e01ef"

// unweighedPairs are the contractions of that table whose characters have one weight each: the first ones, and those behind them.
var unweighedPairs = [][2]string{
	{"4c 6c", "b7 387"},
	{"9c7", "9be 9d7"},
	{"b47", "b3e b56-b57"},
	{"b92", "bd7"},
	{"bc6", "bbe bd7"},
	{"bc7", "bbe"},
	{"c46", "c56"},
	{"cbf cca", "cd5"},
	{"cc6", "cc2 cd5-cd6"},
	{"d46", "d3e d57"},
	{"d47", "d3e"},
	{"dd9", "dca dcf ddf"},
	{"ddc", "dca"},
	{"e40-e44", "e01-e2e"},
	{"ec0-ec4", "e81-e82 e84 e86-e8a e8c-ea3 ea5 ea7-eae ede-edf"},
	{"f71", "f72 f74 f80"},
	{"fb2-fb3", "f71 f80-f81"},
	{"1025", "102e"},
	{"19b5-19b7 19ba", "1980-19ab"},
	{"1b05 1b07 1b09 1b0b 1b0d 1b11 1b3a 1b3c 1b3e-1b3f 1b42", "1b35"},
	{"aab5-aab6 aab9 aabb-aabc", "aa80-aaaf"},
	{"11131-11132", "11127"},
	{"11347", "1133e 11357"},
	{"114b9", "114b0 114ba 114bd"},
	{"115b8-115b9", "115af"},
	{"11935", "11930"},
}

func follows(t *unicode.RangeTable, r rune) bool { return t != nil && unicode.Is(t, r) }
