"""The statements and sources of the reference, each with an example that a test runs."""

from __future__ import annotations

from dataclasses import dataclass

from mlsql.parser.model_statements import CREATE, DROP


@dataclass(frozen=True)
class Form:
    """One form: what it looks like, what it means, and an example over bikes.mp4."""

    chapter: str
    title: str
    form: str
    meaning: str
    example: str = ""


STATEMENTS: tuple[Form, ...] = (
    Form("Sources", "Media files", "FROM 'a.mp4'   FROM 'photos/*.jpg'",
         "A video is a table with a row a picture, as `read_video` gives it; picture files are one "
         "with a row a file, as `read_images` does. Views and tables over them persist.",
         "SELECT count(*) AS frames, max(ts) AS seconds FROM 'bikes.mp4'"),
    Form("Sources", "read_video",
         "read_video(path | glob | [list] [, fps | every | stride | keyframes => …]\n"
         "           [, start => …] [, \"end\" => …])",
         "Columns: path, frame_id (from 0, in the order in which they are shown, kept under "
         "sampling), ts (seconds from the first picture), pts, keyframe, width, height, frame.\n\n"
         "`fps` takes so many pictures a second, `every` one in so many seconds, `stride` every "
         "n-th, `keyframes` those that are stored whole; `start` and `end` are in seconds. Listing "
         "decodes nothing.",
         "SELECT frame_id, ts FROM read_video('bikes.mp4', every => 2.5, start => 1)"),
    Form("Sources", "read_images", "read_images(path | glob | [list])",
         "Columns: path, image, width, height, format, bytes, mtime."),
    Form("Statements", "CREATE MODEL", CREATE,
         "Make the model in a file one of the database: any process that opens the database has "
         "it. Kept are the file's place, its SHA-256 and the options; the weights stay in the "
         "file, and one that has changed is refused. The model is tried at once: what does not "
         "load, or does not answer as its task must, is an error now. Pickled code in a file is "
         "never run. Take TorchScript and torch.export files from those you trust, all the same: "
         "they are programs.\n\n"
         "A model made in Python is registered by `register_model` instead, for its session.",
         "CREATE OR REPLACE MODEL shades FROM 'shades.pt2' WITH (\n"
         "    task => 'classify', labels => ['dark', 'light'], size => 8);\n"
         "SELECT CLASSIFY(frame, model => 'shades') AS shade, shades(frame).scores AS scores\n"
         "FROM 'bikes.mp4' WHERE frame_id = 10"),
    Form("Statements", "DROP MODEL", DROP,
         "Forget a model of the database or the session. The file stays.",
         "DROP MODEL IF EXISTS shades"),
    Form("Statements", "CREATE MACRO",
         "CREATE [OR REPLACE] [TEMP] MACRO name(parameter [:= default], …) AS [TABLE] body",
         "DuckDB's own statement; the body may ask models. Such a macro is kept in the database, "
         "and its body is put in the place of each call. DROP MACRO forgets it.",
         "CREATE MACRO busy(picture, least := 3) AS\n"
         "    COUNT_OBJECTS(picture, 'vehicle') >= least;\n"
         "SELECT frame_id FROM 'bikes.mp4' WHERE keyframe AND busy(frame, least := 1)"),
    Form("Statements", "SHOW MODELS, DESCRIBE MODEL", "SHOW MODELS\nDESCRIBE MODEL name",
         "The models there are, or one: task, labels, types, SHA-256, licence and origin.",
         "DESCRIBE MODEL ssd_mobilenet_v2"),
    Form("Statements", "SET, RESET", "SET setting = value\nRESET setting",
         "Change a [setting](settings.md) for the session, or take it back.\n\n"
         "`max_model_calls` and `statement_timeout` end a statement with the rows that are certain "
         "by then, and a warning that says so, where each row hangs on one input alone: a "
         "selection, also one under LIMIT, ORDER BY or DISTINCT. An aggregate, a window, the top "
         "of an order that a model decides, or a statement that writes is not partly right: it "
         "ends with an error. What was computed is kept, and the next run goes on from there.",
         "SET on_error = 'null'"),
    Form("Statements", "EXPLAIN", "EXPLAIN [ANALYZE] [VERBOSE] [(FORMAT JSON)] statement",
         "The plan: which candidates which models look at, in which order and why, then the SQL "
         "that DuckDB runs. No model is asked; with ANALYZE it is run and measured.",
         "EXPLAIN SELECT frame_id FROM 'bikes.mp4'\n"
         "WHERE keyframe AND CONTAINS(frame, 'bus')"),
    Form("Statements", "Accuracy clauses",
         "SELECT … ERROR WITHIN e [RELATIVE] [AT CONFIDENCE c%]\n"
         "SELECT … RECALL TARGET r% | PRECISION TARGET p% [AT CONFIDENCE c%] [ORACLE LIMIT n]",
         "At the end of a statement: the answer may be approximate, within what the clause says; "
         "without one it is exact."),
)
