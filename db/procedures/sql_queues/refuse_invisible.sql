-- Procedure:  refuse_invisible
-- Purpose:    Refuses a name with a character that cannot be seen, so that two names that look the same are the
--             same. It is the rule of protocol/names.py.
-- Errors:     TL012 INVALID_PARAMETER
CREATE OR REPLACE FUNCTION telesto.refuse_invisible(
    name text  -- of a client, queue or topic
)
RETURNS void
LANGUAGE plpgsql
AS $$
DECLARE
    found constant text := substring(name FROM '[\u0001-\u001F\u007F-\u009F\u00AD\u034F\u061C\u115F-\u1160\u17B4-\u17B5'
                                               '\u180B-\u180F\u200B-\u200F\u2028-\u202E\u2060-\u206F\u3164\uFE00-\uFE0F'
                                               '\uFEFF\uFFA0\uFFF0-\uFFFB\U0001BCA0-\U0001BCA3\U0001D173-\U0001D17A'
                                               '\U000E0000-\U000E0FFF]');
    code constant text := upper(to_hex(ascii(found)));
BEGIN
    IF found IS NOT NULL THEN
        PERFORM telesto.raise_error(:INVALID_PARAMETER, format('a name has no invisible characters, as U+%s%s',
                                               repeat('0', 4 - length(code)), code));
    END IF;
END
$$;
