package wire

import (
	"errors"
	"fmt"
)

// Error is an error in MySQL's words. A Session returns one to have its number and state sent; every other error is sent as 1105.
type Error struct {
	Code    uint16
	State   string // SQLSTATE, five characters
	Message string
}

func (e *Error) Error() string { return fmt.Sprintf("%d (%s): %s", e.Code, e.State, e.Message) }

// Errorf returns an Error of a number that this package knows, and HY000 with any other.
func Errorf(code uint16, format string, args ...any) *Error {
	state, ok := states[code]
	if !ok {
		state = "HY000"
	}
	return &Error{Code: code, State: state, Message: fmt.Sprintf(format, args...)}
}

// The numbers that this package sends itself.
const (
	ErrTooManyConnections = 1040
	ErrOutOfMemory        = 1041
	ErrHandshake          = 1043
	ErrAccessDenied       = 1045
	ErrUnknownCommand     = 1047
	ErrShutdown           = 1053
	ErrUnknown            = 1105
	ErrBlocked            = 1129
	ErrPacketTooLarge     = 1153
	ErrOutOfOrder         = 1156
	ErrArguments          = 1210
	ErrUnknownStatement   = 1243
	ErrAuthMode           = 1251
	ErrInterrupted        = 1317
	ErrTooManyParams      = 1390
	ErrNoCursor           = 1421
	ErrTooManyStatements  = 1461
	ErrMalformed          = 1835
	ErrCleartext          = 3159
	ErrIdle               = 4031
)

// states are the SQLSTATEs of the numbers that have one of their own. Source: MySQL 8.0 Error Message Reference.
var states = map[uint16]string{
	1020: "HY000", 1022: "23000", ErrTooManyConnections: "08004", ErrHandshake: "08S01", 1044: "42000", ErrAccessDenied: "28000", 1046: "3D000",
	ErrUnknownCommand: "08S01", 1048: "23000", 1049: "42000", 1050: "42S01", 1051: "42S02", 1052: "23000", ErrShutdown: "08S01", 1054: "42S22",
	1055: "42000", 1056: "42000", 1058: "21S01", 1059: "42000", 1060: "42S21", 1061: "42000", 1062: "23000", 1063: "42000", 1064: "42000",
	1065: "42000", 1066: "42000", 1067: "42000", 1068: "42000", 1069: "42000", 1070: "42000", 1071: "42000", 1072: "42000", 1073: "42000",
	1074: "42000", 1075: "42000", 1091: "42000", 1101: "42000", 1102: "42000", 1103: "42000", 1109: "42S02", 1110: "42000", 1115: "42000",
	1118: "42000", 1120: "42000", 1121: "42000", 1136: "21S01", 1138: "22004", 1139: "42000", 1140: "42000", 1141: "42000", 1142: "42000",
	1143: "42000", 1144: "42000", 1146: "42S02", 1147: "42000", 1148: "42000", 1149: "42000", ErrPacketTooLarge: "08S01", ErrOutOfOrder: "08S01",
	1164: "42000", 1166: "42000", 1169: "23000", 1170: "42000", 1171: "42000", 1176: "42000", 1177: "42000", 1178: "42000", 1179: "25000", 1184: "08S01",
	1205: "HY000", 1207: "25000", 1213: "40001", 1216: "23000", 1217: "23000", 1222: "21000", 1227: "42000", 1230: "42000", 1231: "42000",
	1232: "42000", 1235: "42000", 1239: "42000", 1241: "21000", 1242: "21000", 1247: "42S22", 1248: "42000", 1250: "42000", ErrAuthMode: "08004",
	1252: "42000", 1253: "42000", 1261: "01000", 1262: "01000", 1263: "22004", 1264: "22003", 1265: "01000", 1280: "42000", 1281: "42000",
	1286: "42000", 1292: "22007", 1303: "2F003", 1304: "42000", 1305: "42000", 1318: "42000", ErrInterrupted: "70100", 1321: "2F005", 1325: "24000",
	1326: "24000", 1327: "42000", 1336: "0A000", 1364: "HY000", 1365: "22012", 1367: "22007", 1370: "42000", 1391: "42000", 1396: "HY000",
	1410: "42000", 1397: "XAE04", 1398: "XAE05", 1399: "XAE07", 1400: "XAE09", 1401: "XAE03", 1402: "XA100", 1440: "XAE08", 1406: "22001", 1407: "42000", 1411: "HY000", 1425: "42000", 1426: "42000", 1427: "42000", 1451: "23000",
	1452: "23000", ErrTooManyStatements: "42000", 1463: "42000", 1568: "25001", 1582: "42000", 1583: "42000", 1584: "42000", 1586: "23000",
	1644: "45000", 1690: "22003", 1701: "42000", 1792: "25006", 3024: "HY000", 3140: "22032", 3141: "22032", 3144: "22032", 3152: "42000", 3572: "HY000", 3819: "HY000",
}

// asError returns err in MySQL's words.
func asError(err error) *Error {
	var e *Error
	if errors.As(err, &e) {
		return e
	}
	return Errorf(ErrUnknown, "%v", err)
}
